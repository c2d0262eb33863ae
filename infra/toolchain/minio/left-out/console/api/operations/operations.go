// Package operations stands in for the operations of MinIO's console, which is left out.
package operations

type ConsoleAPI struct{ Logger func(string, ...any) }

func NewConsoleAPI(any) *ConsoleAPI { return &ConsoleAPI{} }
