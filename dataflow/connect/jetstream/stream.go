package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/connect"
)

const (
	// numberHeader is the header with an element's number.
	numberHeader = "Millrace-Number"
	// markHeader is the header of a message that has no element, but says up to which number all are there.
	markHeader = "Millrace-Mark"
)

// A Message is a message of a stream.
type Message struct {
	Subject  string
	Header   nats.Header // nil if there is none
	Data     []byte
	Sequence uint64    // in the stream
	Time     time.Time // when the server stored it
}

// A Stream is a stream that is read.
type Stream[K comparable, V any] struct {
	// JetStream is the client. Closing the reader does not close its connection.
	JetStream natsjs.JetStream
	// Name is the stream's name.
	Name string

	// Subjects divides the stream: each one, which may have wildcards, is a split, and messages of other subjects are not read. No
	// message may have two of them. Without any, the stream is one split.
	Subjects []string

	// Decode returns what a message means. It is called by several goroutines, once or more for each message, whose parts it may keep. An
	// error makes the message a [connect.Poison]; one of [connect.Retry] has it decoded again later.
	Decode func(Message) (K, V, error)

	// From leaves out messages that were stored before it, of a split of which the flow has nothing yet. The zero time leaves out
	// none.
	From time.Time

	// Compacted says that a message which is gone is not missed. It is for streams in which a newer message of a subject replaces
	// older ones, such as a bucket of keys: there, the oldest messages are gone without anything being lost. With Subjects, it is also for
	// streams in which messages of other subjects expire while the process is down for long: whether messages that are gone had the
	// split's subject cannot be known, and is an ErrGap without Compacted.
	Compacted bool
}

// Reader returns a reader of the stream. The error is one of its options.
func (s Stream[K, V]) Reader() (connect.Reader[K, V], error) {
	switch {
	case s.JetStream == nil:
		return nil, fmt.Errorf("jetstream: stream %q: JetStream is nil", s.Name)
	case s.Decode == nil:
		return nil, fmt.Errorf("jetstream: stream %q: Decode is nil", s.Name)
	}
	for i, a := range s.Subjects {
		for _, b := range s.Subjects[:i] {
			if overlap(strings.Split(a, "."), strings.Split(b, ".")) {
				return nil, fmt.Errorf("jetstream: stream %q: a message can have both of the subjects %q and %q, and would be read twice", s.Name, b, a)
			}
		}
	}
	return &reader[K, V]{s}, nil
}

// overlap reports whether a subject can match both of two, which are given as tokens.
func overlap(a, b []string) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == ">" || b[0] == ">":
			return true
		case a[0] != "*" && b[0] != "*" && a[0] != b[0]:
			return false
		}
		a, b = a[1:], b[1:]
	}
	return len(a) == 0 && len(b) == 0
}

type reader[K comparable, V any] struct{ stream Stream[K, V] }

func (r *reader[K, V]) Splits(ctx context.Context) ([]connect.Split, error) {
	now, err := look(ctx, r.stream.JetStream, r.stream.Name)
	if err != nil {
		return nil, failure(ctx, fmt.Sprintf("jetstream: stream %q", r.stream.Name), err)
	}
	if len(r.stream.Subjects) == 0 {
		return []connect.Split{{ID: splitID(now, ""), Name: r.stream.Name}}, nil
	}
	var all []connect.Split
	for _, subject := range r.stream.Subjects {
		all = append(all, connect.Split{ID: splitID(now, subject), Name: r.stream.Name + "/" + subject})
	}
	return all, nil
}

// Close does nothing.
func (r *reader[K, V]) Close() error { return nil }

// splitID returns the id of a split: the stream, when it was made, and the subject, if not all of it is read.
func splitID(of *natsjs.StreamInfo, subject string) string {
	return fmt.Sprintf("jetstream/%s/%d/%s", of.Config.Name, of.Created.UnixNano(), subject)
}

// subjectOf returns the subject of a split's id, empty for all of the stream.
func subjectOf(id string) (string, error) {
	parts := strings.SplitN(id, "/", 4)
	if len(parts) != 4 || parts[0] != "jetstream" {
		return "", fmt.Errorf("jetstream: %q is not the id of a split", id)
	}
	return parts[3], nil
}

// errForgets says that a stream has a retention of another kind than that of limits.
var errForgets = errors.New("the stream forgets what is acknowledged, so that it cannot be read again")

// look asks the leader of a stream what there is.
func look(ctx context.Context, js natsjs.JetStream, name string) (*natsjs.StreamInfo, error) {
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// failure says what an error of the client is of, and whether it passes. Most do: connections break, streams get other leaders, and
// a stream that is not there may be about to be made again. What the server refuses does not, and a connection that the program has
// closed.
func failure(ctx context.Context, of string, err error) error {
	refused, isRefused := errors.AsType[*natsjs.APIError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", of, context.Cause(ctx))
	case connect.Passes(err), errors.Is(err, natsjs.ErrStreamNotFound), errors.Is(err, natsjs.ErrConsumerNotFound):
	case isRefused && refused.Code >= 400 && refused.Code < 500 && refused.Code != 408 && refused.Code != 429,
		errors.Is(err, errForgets), errors.Is(err, errForeign), errors.Is(err, errRefused), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, natsjs.ErrConnectionClosed),
		errors.Is(err, natsjs.ErrInvalidStreamName), errors.Is(err, natsjs.ErrStreamNameRequired):
		return fmt.Errorf("%s: %w", of, err)
	}
	return connect.Retry(fmt.Errorf("%s: %w", of, err))
}
