package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow/connect"
)

// failure says what an error of the client is of, and whether it passes. A connection that ends is an io.EOF to the client, which
// is not to be taken for the end of a split.
func failure(of string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return connect.Retry(fmt.Errorf("%s: a connection has ended: %v", of, err))
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", of, err)
	case kerr.IsRetriable(err), kgo.IsRetryableBrokerErr(err):
		return connect.Retry(fmt.Errorf("%s: %w", of, err))
	}
	return fmt.Errorf("%s: %w", of, err)
}

var retried = reflect.TypeOf(connect.Retry(io.ErrUnexpectedEOF))

// passes reports whether somebody marked the error with [connect.Retry].
func passes(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if reflect.TypeOf(err) == retried {
			return true
		}
	}
	return false
}
