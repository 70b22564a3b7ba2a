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
	// numberHeader is the header with the number of an element.
	numberHeader = "Millrace-Number"
	// markHeader is the header of a message without an element. It says up to which number all elements exist.
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
	// Name is the name of the stream.
	Name string

	// Subjects divides the stream: each subject, which may contain wildcards, is a split, and messages of other subjects are not
	// read. No message may match two subjects. Without Subjects, the stream is one split.
	Subjects []string

	// Decode decodes a message. Several goroutines call it, once or more for each message. It may retain the parts of the
	// message. After an error or a panic the message is a [connect.Poison]. An error marked with [connect.Retry] means that it is decoded
	// again later.
	Decode func(Message) (K, V, error)

	// From skips messages that were stored before that time, for a split of which the flow has read nothing yet. The zero time
	// skips none.
	From time.Time

	// Compacted says that missing messages are no error. It is for streams in which a newer message of a subject replaces older
	// ones, such as a key-value bucket: there the oldest messages disappear without any loss. With Subjects, it is also for
	// streams in which messages of other subjects expire while the process is down for long. It cannot be known whether missing
	// messages had the split's subject, so without Compacted they are an ErrGap.
	Compacted bool
}

// Reader returns a reader of the stream, or an error if an option is invalid.
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

// overlap reports whether a subject can match both of two patterns, which are given as tokens.
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

// splitID returns the ID of a split: the stream, its creation time, and the subject, if not all of the stream is read.
func splitID(of *natsjs.StreamInfo, subject string) string {
	return fmt.Sprintf("jetstream/%s/%d/%s", of.Config.Name, of.Created.UnixNano(), subject)
}

// subjectOf returns the subject in a split's ID, which is empty for all of the stream.
func subjectOf(id string) (string, error) {
	parts := strings.SplitN(id, "/", 4)
	if len(parts) != 4 || parts[0] != "jetstream" {
		return "", fmt.Errorf("jetstream: %q is not the id of a split", id)
	}
	return parts[3], nil
}

// errForgets says that the retention of a stream is not limits retention.
var errForgets = errors.New("the stream forgets what is acknowledged, so that it cannot be read again")

// look asks the leader of a stream for its current state.
func look(ctx context.Context, js natsjs.JetStream, name string) (*natsjs.StreamInfo, error) {
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// failure adds a prefix to an error of the client, and marks it if it passes. Most errors pass: connections break, streams get
// other leaders, and a missing stream may be about to be created again. A refusal by the server does not pass, nor does a
// connection that the program has closed.
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
