// Package option stands in for the options of Google's API, whose client is left out.
package option

func WithCredentialsJSON([]byte) any { return nil }
func WithScopes(...string) any       { return nil }
func WithUserAgent(string) any       { return nil }
