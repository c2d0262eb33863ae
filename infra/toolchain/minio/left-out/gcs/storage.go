// Package storage stands in for Google Cloud Storage's client, which is left out.
package storage

import (
	"context"
	"errors"
	"io"
)

// ScopeReadWrite is what MinIO asks for.
const ScopeReadWrite = ""

var errLeftOut = errors.New("this build of MinIO has no tiers on Google Cloud Storage")

type (
	Client         struct{}
	BucketHandle   struct{}
	ObjectHandle   struct{}
	ObjectIterator struct{}
	ObjectAttrs    struct{}
	Query          struct {
		Delimiter, Prefix string
		Versions          bool
	}
	Writer struct {
		io.WriteCloser
		StorageClass string
		Metadata     map[string]string
	}
)

// NewClient fails, so nothing else is ever called.
func NewClient(context.Context, ...any) (*Client, error) { return nil, errLeftOut }

func (*Client) Bucket(string) *BucketHandle                           { return nil }
func (*BucketHandle) Object(string) *ObjectHandle                     { return nil }
func (*BucketHandle) Objects(context.Context, *Query) *ObjectIterator { return nil }
func (*ObjectHandle) NewWriter(context.Context) *Writer               { return nil }
func (*ObjectHandle) ReadCompressed(bool) *ObjectHandle               { return nil }
func (*ObjectHandle) Delete(context.Context) error                    { return errLeftOut }
func (*ObjectHandle) NewRangeReader(context.Context, int64, int64) (io.ReadCloser, error) {
	return nil, errLeftOut
}
