// Package googleapi stands in for the errors of Google's API, whose client is left out.
package googleapi

type ErrorItem struct{ Reason, Message string }

type Error struct {
	Code    int
	Message string
	Errors  []ErrorItem
}

func (e *Error) Error() string { return e.Message }
