package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/connect"
)

// A Sink writes lanes to a stream. It is a [connect.Sink]: the stream has each element once.
//
// A lane has the subject PREFIX.FLOW.OUTPUT.PARTITION. Dots, blanks and wildcards in names are written as %2E and so on. Messages
// with the header Millrace-Number are elements, and the header is the element's number. Messages with the header Millrace-Mark
// have no data, and say up to which number all elements exist. A [Stream] passes over them.
//
// The last message of a lane must not be deleted. Without it the number is lost, and the flow does not continue by itself: the
// error of [connect.Drain] is a [connect.ErrGap]. So no limit of the stream may remove the last message of a subject to which
// nothing is written.
type Sink[T any] struct {
	// JetStream is the client. Closing a writer does not close its connection.
	JetStream natsjs.JetStream
	// Stream is the name of a stream that takes Prefix.> and has limits retention. With AllowAtomicPublish, which servers support
	// from version 2.12 on, a write of many elements is a few atomic batches. Without it, or for few elements, they are written
	// one after the other.
	Stream string
	// Prefix is the beginning of the subjects of lanes.
	Prefix string

	// Encode returns the message for an element and its number. If the message has a subject, it is written there, in one batch
	// with a mark of the lane. That requires AllowAtomicPublish, and the subject must be one of the stream and not that of a
	// lane. An error ends the drain, with nothing of the write done. A Nats-Msg-Id that another message of the stream has, of any
	// lane, ends the drain too, because the stream does not store the element.
	Encode func(number uint64, x T) (*nats.Msg, error)

	// Timeout is how long to wait for an answer of the server. After that the lane is opened again. Zero means 10 seconds.
	Timeout time.Duration
}

// headersOfWriter is more than the size of the headers that a batch needs.
const headersOfWriter = 512

// fewest is the smallest number of elements that are written as a batch. A server creates a file store for each batch, which was
// measured to take 35 ms, while a message takes 0.1 ms. On a network, batches are faster from about this number on.
var fewest = 32

// mostAtOnce is the largest number of elements in an atomic batch. The server allows 1,000 messages; one is left for a mark.
const mostAtOnce = 999

// Open writes a mark. The previous writer does not know it, so the server refuses everything that it writes from then on.
func (s Sink[T]) Open(ctx context.Context, l connect.Lane) (connect.Writer[T, connect.Atomic], uint64, error) {
	of := fmt.Sprintf("jetstream: opening lane %s", l)
	if s.JetStream == nil || s.Encode == nil || s.Prefix == "" {
		return nil, 0, fmt.Errorf("%s: Sink.JetStream, Sink.Encode and Sink.Prefix are needed", of)
	}
	s.Timeout = cmp.Or(s.Timeout, 10*time.Second)
	w := &writer[T]{s: s, lane: l, subject: subjectOfLane(s.Prefix, l)}
	now, err := look(ctx, s.JetStream, s.Stream)
	if err != nil {
		return nil, 0, failure(ctx, of, err)
	}
	if now.Config.Retention != natsjs.LimitsPolicy {
		return nil, 0, fmt.Errorf("%s: %w: its retention is %s", of, errForgets, now.Config.Retention)
	}
	w.atomic = now.Config.AllowAtomicPublish
	for {
		if err := w.find(ctx); err != nil {
			return nil, 0, failure(ctx, of, err)
		}
		switch err := w.publish(ctx, w.mark(w.last), true); {
		case errors.Is(err, connect.ErrFenced): // another writer wrote in between
		case err != nil:
			return nil, 0, failure(ctx, of, err)
		default:
			return w, w.last, nil
		}
	}
}

// subjectOfLane returns the subject of a lane. It is different for every lane.
func subjectOfLane(prefix string, l connect.Lane) string {
	return fmt.Sprintf("%s.%s.%s.%d", prefix, token(l.Flow), token(l.Output), l.Partition)
}

// token returns a name as a token of a subject.
func token(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c <= ' ' || c == 0x7f || strings.IndexByte(".*>%", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// A writer writes one lane.
type writer[T any] struct {
	s       Sink[T]
	lane    connect.Lane
	subject string
	atomic  bool

	sequence uint64 // sequence of the last message of the subject
	last     uint64 // number of the last element
}

// find asks the leader for the last message of the lane.
func (w *writer[T]) find(ctx context.Context) error {
	w.sequence, w.last = 0, 0
	m, ok, err := get(ctx, w.s.JetStream, w.s.Stream, map[string]any{"last_by_subj": w.subject})
	if err != nil || !ok {
		return err
	}
	number, err := m.header(numberHeader)
	if err == nil && number == "" {
		number, err = m.header(markHeader)
	}
	if err != nil {
		return err
	}
	if w.last, err = strconv.ParseUint(number, 10, 64); err != nil {
		return fmt.Errorf("%w: %s has a message without a number, with sequence %d", errForeign, w.subject, m.Sequence)
	}
	w.sequence = m.Sequence
	return nil
}

// errForeign says that somebody else writes to the subject of a lane.
var errForeign = errors.New("the subject is not a lane's alone")

// mark returns a message that says up to which number all elements exist.
func (w *writer[T]) mark(last uint64) *nats.Msg {
	return &nats.Msg{Subject: w.subject, Header: nats.Header{markHeader: {strconv.FormatUint(last, 10)}}}
}

func (w *writer[T]) Write(ctx context.Context, first uint64, xs []T) (e connect.Atomic, _ error) {
	switch err := w.write(ctx, first, xs); {
	case err == nil:
		return e, nil
	case errors.Is(err, connect.ErrFenced):
		return e, fmt.Errorf("jetstream: writing lane %s: %w", w.lane, err)
	default:
		return e, failure(ctx, fmt.Sprintf("jetstream: writing lane %s", w.lane), err)
	}
}

func (w *writer[T]) write(ctx context.Context, first uint64, xs []T) error {
	if first != w.last+1 {
		return fmt.Errorf("%w: elements from number %d on, and the last one that is there is %d", errRefused, first, w.last)
	}
	messages, err := w.encode(first, xs)
	if err != nil {
		return err
	}
	together := w.atomic && (len(messages) >= fewest || slices.ContainsFunc(messages, func(m *nats.Msg) bool { return m.Subject != w.subject }))
	for len(messages) > 0 {
		n := 1
		if together {
			n = min(len(messages), mostAtOnce)
		}
		if err := w.commit(ctx, messages[:n]); err != nil {
			return err
		}
		messages = messages[n:]
		w.last += uint64(n)
	}
	return nil
}

// errRefused says that an element cannot be written, now or later.
var errRefused = errors.New("refused")

// encode returns the messages of elements.
func (w *writer[T]) encode(first uint64, xs []T) ([]*nats.Msg, error) {
	all := make([]*nats.Msg, len(xs))
	for i, x := range xs {
		number := first + uint64(i)
		m, err := w.s.Encode(number, x)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: encoding element %d: %w", errRefused, number, err)
		case m == nil:
			return nil, fmt.Errorf("%w: encoding element %d: no message", errRefused, number)
		case m.Subject != "" && !w.atomic:
			return nil, fmt.Errorf("%w: element %d has a subject, and stream %q does not allow atomic batches (AllowAtomicPublish)", errRefused, number, w.s.Stream)
		case m.Subject == w.subject || strings.HasPrefix(m.Subject, w.s.Prefix+"."):
			return nil, fmt.Errorf("%w: element %d has the subject %s, which is one of lanes", errRefused, number, m.Subject)
		}
		out := &nats.Msg{Subject: cmp.Or(m.Subject, w.subject), Data: m.Data, Header: nats.Header{}}
		for name, values := range m.Header {
			out.Header[name] = values
		}
		out.Header[numberHeader] = []string{strconv.FormatUint(number, 10)}
		delete(out.Header, markHeader)
		if most := w.s.JetStream.Conn().MaxPayload() - headersOfWriter; int64(out.Size()) > most {
			return nil, fmt.Errorf("%w: element %d has %d bytes with its headers, and %d can be written", errRefused, number, out.Size(), most)
		}
		all[i] = out
	}
	return all, nil
}

// commit writes elements so that all exist or none. Its last message belongs to the lane.
func (w *writer[T]) commit(ctx context.Context, messages []*nats.Msg) error {
	if last := messages[len(messages)-1]; last.Subject != w.subject {
		messages = append(messages[:len(messages):len(messages)], w.mark(w.last+uint64(len(messages))))
	}
	if len(messages) == 1 {
		return w.publish(ctx, messages[0], true)
	}
	id, expected := nats.NewInbox(), false
	for i, m := range messages {
		m.Header[batchHeader], m.Header[batchSequenceHeader] = []string{id}, []string{strconv.Itoa(i + 1)}
		if expect := !expected && m.Subject == w.subject; expect {
			expected = true
			w.expect(m)
		}
		switch i {
		case len(messages) - 1:
			m.Header[batchCommitHeader] = []string{"1"}
			return w.publish(ctx, m, false)
		case 0: // its answer says at once whether a batch is possible
			if err := w.ask(ctx, m, new(int)); err != nil {
				return err
			}
		default:
			if err := w.s.JetStream.Conn().PublishMsg(m); err != nil {
				return err
			}
		}
	}
	return nil
}
