package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/connect"
)

// Headers of the server. The client does not support those for batches.
const (
	expectHeader        = "Nats-Expected-Last-Subject-Sequence"
	batchHeader         = "Nats-Batch-Id"
	batchSequenceHeader = "Nats-Batch-Sequence"
	batchCommitHeader   = "Nats-Batch-Commit"
)

// Error codes of the server.
const (
	codeWrongSequence   natsjs.ErrorCode = 10071
	codeSubjectUnderWay natsjs.ErrorCode = 10164 // a message of the same subject is being kept, or was acknowledged a moment ago
	codeBatchIncomplete natsjs.ErrorCode = 10176 // the batch took too long, or one of its messages was lost
	codeBatchesTooMany  natsjs.ErrorCode = 10210
)

// expect makes the server refuse a message if the last message of its subject is not
// the one that the writer knows.
func (w *writer[T]) expect(m *nats.Msg) {
	m.Header[expectHeader] = []string{strconv.FormatUint(w.sequence, 10)}
}

// publish writes a message of the lane once. If there is no answer, the message may have been stored, and is not
// sent again.
func (w *writer[T]) publish(ctx context.Context, m *nats.Msg, expect bool) error {
	if expect {
		w.expect(m)
	}
	var ack struct {
		Stream    string `json:"stream"`
		Sequence  uint64 `json:"seq"`
		Duplicate bool   `json:"duplicate"`
	}
	if err := w.ask(ctx, m, &ack); err != nil {
		return err
	}
	if ack.Stream != w.s.Stream || ack.Sequence == 0 {
		return fmt.Errorf("%w: the subject %s is one of stream %q", errRefused, m.Subject, ack.Stream)
	}
	if ack.Duplicate {
		return fmt.Errorf("%w: the stream has a message with the same %s already, and does not store this one", errRefused, natsjs.MsgIDHeader)
	}
	w.sequence = ack.Sequence
	return nil
}

// ask sends a message and decodes the answer. The answer is empty for messages of a
// batch that is not committed yet.
func (w *writer[T]) ask(ctx context.Context, m *nats.Msg, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, w.s.Timeout)
	defer cancel()
	resp, err := w.s.JetStream.Conn().RequestMsgWithContext(ctx, m)
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("no stream takes the subject %s, or it has no leader: %w", m.Subject, err)
	} else if err != nil {
		return err
	}
	if len(resp.Data) == 0 {
		return nil
	}
	var failed struct {
		Error *natsjs.APIError `json:"error"`
	}
	if err := json.Unmarshal(resp.Data, &failed); err != nil {
		return err
	}
	if e := failed.Error; e != nil {
		switch e.ErrorCode {
		case codeWrongSequence:
			return fmt.Errorf("%w: %w", connect.ErrFenced, e)
		case codeSubjectUnderWay, codeBatchIncomplete, codeBatchesTooMany:
			return connect.Retry(e)
		}
		return e
	}
	return json.Unmarshal(resp.Data, answer)
}

// Close does nothing: the next writer takes the lane over.
func (w *writer[T]) Close() error { return nil }
