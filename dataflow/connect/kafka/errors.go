package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow/connect"
)

// failure adds a prefix to an error of the client, and marks it if it passes. The client returns an io.EOF when a connection
// ends. It must not be mistaken for the end of a split.
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

// healed are broker errors that a producer with a new epoch does not have. The client does not call them retriable, since it
// cannot know what was written.
var healed = []error{
	kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.InvalidTxnState, kerr.TransactionAbortable, kerr.OutOfOrderSequenceNumber,
	kerr.OperationNotAttempted, kerr.RequestTimedOut, kerr.UnknownServerError,
}

// heals interprets an error of a write: it returns ErrFenced if another writer is the reason, and marks the error if it passes
// when the lane is opened again. Most broker errors do not pass, such as a record that is too large. Errors of the client itself
// concern connections and timeouts, and pass.
func heals(err error) error {
	_, isKafka := errors.AsType[*kerr.Error](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch):
		return fmt.Errorf("%w: %w", connect.ErrFenced, err)
	case !isKafka, slices.ContainsFunc(healed, func(e error) bool { return errors.Is(err, e) }):
		return connect.Retry(err)
	}
	return err
}
