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

// healed are errors of brokers that a producer with a new epoch does not have. The client does not call them retriable, since it
// cannot know what was written.
var healed = []error{
	kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.InvalidTxnState, kerr.TransactionAbortable, kerr.OutOfOrderSequenceNumber,
	kerr.OperationNotAttempted, kerr.RequestTimedOut, kerr.UnknownServerError,
}

// heals says of an error in writing whether another writer is the reason, and whether it passes when the lane is opened again. Of
// the errors of brokers, such as that a record is too large, most stay. Those of the client are of connections and of time.
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
