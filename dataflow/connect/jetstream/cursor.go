package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

const (
	// Limits of one call of Next, and of one request of the client.
	batchMessages = 2048
	batchBytes    = 8 << 20
	leastMessages = 4
	// quiet is how long Next waits for a message before it asks the server where the stream ends.
	quiet = time.Second
	// undelivered is how many times in a row a message may exist without being delivered.
	undelivered = 3
	// unused is after how long the server deletes a consumer that requests no messages, such as after its process was killed.
	unused = 5 * time.Minute
	// closeWithin bounds the time to delete the consumer.
	closeWithin = 2 * time.Second
)

// settled is how long a stream must have ended at a sequence before a split counts as read up to it. By then, a leader that was
// cut off knows that it is no longer the leader, and cannot wrongly answer that there is no message.
var settled = 15 * time.Second

// A cursor reads a split with its own consumer, which acknowledges nothing. The client's ordered consumer
// would replace the consumer by itself whenever it misses a message. Here that is an error that passes, so
// that the split is opened again with all checks.
type cursor[K comparable, V any] struct {
	r       *reader[K, V]
	split   connect.Split
	subject string

	consumer  natsjs.Consumer
	messages  natsjs.MessagesContext
	connected uint64 // number of reconnects when the consumer was created

	delivered uint64             // messages delivered by the consumer
	read      dataflow.Position  // everything up to it was read
	end       natsjs.StreamState // the end of the stream when nothing came,
	since     time.Time          // and when that was
	missing   int                // how often a message existed that had not been delivered
	ended     bool               // the stream was created again
	next      natsjs.Msg         // must be decoded again; nil if there is none
}

func (r *reader[K, V]) Open(ctx context.Context, s connect.Split, after dataflow.Position) (connect.Cursor[K, V], error) {
	c := &cursor[K, V]{r: r, split: s, read: after}
	var err error
	if c.subject, err = subjectOf(s.ID); err != nil {
		return nil, err
	}
	if err := c.open(ctx, after); err != nil {
		_ = c.Close()
		return nil, c.fail(ctx, err)
	}
	return c, nil
}

// open creates the consumer before it looks at the stream. If the stream is the split's then, it
// was when the consumer was created.
func (c *cursor[K, V]) open(ctx context.Context, after dataflow.Position) error {
	js, name := c.r.stream.JetStream, c.r.stream.Name
	// A consumer would take messages of a work queue away from others, so check the retention first.
	now, err := look(ctx, js, name)
	if err != nil {
		return err
	}
	if now.Config.Retention != natsjs.LimitsPolicy {
		return fmt.Errorf("%w: its retention is %s", errForgets, now.Config.Retention)
	}
	cfg := natsjs.ConsumerConfig{
		AckPolicy: natsjs.AckNonePolicy, FilterSubject: c.subject, InactiveThreshold: unused, MemoryStorage: true, Replicas: 1,
	}
	switch {
	case after.Major > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = natsjs.DeliverByStartSequencePolicy, after.Major+1
	case !c.r.stream.From.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = natsjs.DeliverByStartTimePolicy, &c.r.stream.From
	}
	c.connected = js.Conn().Stats().Reconnects
	if c.consumer, err = js.CreateConsumer(ctx, name, cfg); err != nil {
		return err
	}
	if now, err = look(ctx, js, name); err != nil {
		return err
	}
	if c.ended = splitID(now, c.subject) != c.split.ID; c.ended {
		return nil
	}
	if after.Major > 0 {
		if err := c.compare(ctx, now); err != nil {
			return err
		}
	} else if now.State.FirstSeq > 0 {
		c.read.Major = now.State.FirstSeq - 1
	}
	c.messages, err = c.consumer.Messages(natsjs.PullMaxMessages(ahead(now.State)), natsjs.WithMessagesErrOnMissingHeartbeat(false))
	return err
}

// ahead is how many messages the client requests at once, and holds if the flow is slow: about batchBytes, given the average size
// in the stream. The client could be given a number of bytes, but then it may drop messages that it has requested.
func ahead(s natsjs.StreamState) int {
	if s.Msgs == 0 {
		return batchMessages
	}
	return int(min(batchMessages, max(leastMessages, batchBytes/(s.Bytes/s.Msgs+1))))
}

// compare checks that the stream has lost no message after the position, and that the message at the position, if it still
// exists, is the one that was read.
func (c *cursor[K, V]) compare(ctx context.Context, now *natsjs.StreamInfo) error {
	if err := c.gone(now); err != nil {
		return err
	}
	m, ok, err := get(ctx, c.r.stream.JetStream, c.r.stream.Name, map[string]any{"seq": c.read.Major})
	if err != nil {
		return err
	}
	if ok && c.read.Minor != 0 && c.read.Minor != stamp(m.Time) {
		return fmt.Errorf("the message with sequence %d is not the one that was read: the stream has lost its end, and other messages are in its place: %w", c.read.Major, connect.ErrGap)
	}
	return nil
}

// gone returns an error if the stream has lost what was read or what comes next.
func (c *cursor[K, V]) gone(now *natsjs.StreamInfo) error {
	switch s := now.State; {
	case s.LastSeq < c.read.Major:
		return fmt.Errorf("the stream ends at sequence %d, before %d, to which it was read: %w", s.LastSeq, c.read.Major, connect.ErrGap)
	case s.FirstSeq > c.read.Major+1 && !c.r.stream.Compacted:
		return fmt.Errorf("the messages with sequences %d to %d are gone: %w", c.read.Major+1, s.FirstSeq-1, connect.ErrGap)
	}
	return nil
}

// stamp returns the Minor of a message's position.
func stamp(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

func (c *cursor[K, V]) Next(ctx context.Context, b *connect.Batch[K, V]) error {
	if c.ended {
		return io.EOF
	}
	jumped := uint64(0) // the sequence before the first one that was passed over
	jumps := false
	waiting, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	wait := natsjs.NextContext(waiting)
	for size, n := 0, 0; n < batchMessages && size < batchBytes; n++ {
		m, err := c.message(wait)
		if err != nil {
			if ctx.Err() == nil && waiting.Err() != nil && n > 0 {
				break
			} else if ctx.Err() == nil && waiting.Err() != nil {
				return c.fail(ctx, c.look(ctx, b))
			}
			return c.fail(ctx, c.broken(ctx, err))
		}
		at, err := c.place(m)
		if err != nil {
			return c.fail(ctx, err)
		}
		if at.position.Major <= c.read.Major {
			continue // it was deleted meanwhile, and the cursor has passed it
		}
		if !jumps && at.position.Major > c.read.Major+1 {
			jumps, jumped = true, c.read.Major
		}
		size += len(m.Data())
		if ok, err := c.add(b, m, at); !ok {
			c.next = m
			if n > 0 {
				break // the next call starts with the message and returns the error
			}
			return c.fail(ctx, err)
		}
		c.read, b.EndTime, b.Behind = at.position, at.time, at.behind
		if at.behind == 0 {
			break
		}
	}
	c.missing = 0
	if jumps {
		return c.fail(ctx, c.skipped(ctx, jumped))
	}
	return nil
}

// message returns the next message.
func (c *cursor[K, V]) message(wait natsjs.NextOpt) (natsjs.Msg, error) {
	if m := c.next; m != nil {
		c.next = nil
		return m, nil
	}
	return c.messages.Next(wait)
}

// A place is the server's metadata of a message.
type place struct {
	position dataflow.Position
	time     time.Time
	behind   int64
}

func (c *cursor[K, V]) place(m natsjs.Msg) (place, error) {
	md, err := m.Metadata()
	if err != nil {
		return place{}, err
	}
	// A message that is decoded again is the one that was delivered last.
	if n := md.Sequence.Consumer; n != c.delivered && n != c.delivered+1 {
		return place{}, connect.Retry(fmt.Errorf("messages %d to %d of the consumer have not come", c.delivered+1, n-1))
	}
	c.delivered = md.Sequence.Consumer
	return place{dataflow.Position{Major: md.Sequence.Stream, Minor: stamp(md.Timestamp)}, md.Timestamp, int64(md.NumPending)}, nil
}

// add decodes a message and adds it to a batch. It returns false if decoding must be tried again later.
func (c *cursor[K, V]) add(b *connect.Batch[K, V], m natsjs.Msg, at place) (bool, error) {
	if h := m.Headers(); h != nil && h.Get(markHeader) != "" {
		b.End = at.position
		return true, nil
	}
	k, v, err := connect.Decode(c.r.stream.Decode, Message{m.Subject(), m.Headers(), m.Data(), at.position.Major, at.time})
	switch {
	case err == nil:
		b.Add(k, v, at.position)
	case connect.Passes(err):
		return false, err
	default:
		b.AddBad(c.split, at.position, m.Data(), err)
	}
	return true, nil
}

// skipped checks whether the stream's limits removed messages at the passed-over sequences before they were read. Messages of
// other subjects, and messages that were deleted individually, are passed over as well.
func (c *cursor[K, V]) skipped(ctx context.Context, behind uint64) error {
	now, err := look(ctx, c.r.stream.JetStream, c.r.stream.Name)
	if err != nil {
		return err
	}
	if splitID(now, c.subject) != c.split.ID {
		return nil // what was read from the previous stream is correct
	}
	if now.State.FirstSeq > behind+1 && !c.r.stream.Compacted {
		return connect.Retry(fmt.Errorf("messages from sequence %d on were removed before they were read: %w", behind+1, connect.ErrGap)) // Open then returns the gap, from the floor on
	}
	return nil
}

// look asks how far the stream is, after nothing has come for a while. It moves the end of the split there, so that the floor of
// a quiet subject does not fall behind messages that expire.
func (c *cursor[K, V]) look(ctx context.Context, b *connect.Batch[K, V]) error {
	if n := c.r.stream.JetStream.Conn().Stats().Reconnects; n != c.connected {
		return connect.Retry(errors.New("the connection was made again"))
	}
	js, name := c.r.stream.JetStream, c.r.stream.Name
	end, err := look(ctx, js, name)
	if err != nil {
		return err
	}
	if c.ended = splitID(end, c.subject) != c.split.ID; c.ended {
		return io.EOF
	}
	if err := c.gone(end); err != nil {
		return connect.Retry(err) // Open then returns the gap, from the floor on
	}
	if end.State.LastSeq == c.read.Major {
		b.Behind = 0
		return nil
	}
	if c.end.LastSeq <= c.read.Major {
		c.end, c.since = end.State, time.Now()
	}
	if time.Since(c.since) < settled {
		return nil
	}
	subject := cmp.Or(c.subject, ">")
	m, ok, err := get(ctx, js, name, map[string]any{"seq": c.read.Major + 1, "next_by_subj": subject})
	if err != nil {
		return err
	}
	now, err := look(ctx, js, name) // after the request: what was removed before it is gone by now
	if err != nil {
		return err
	}
	if err := c.gone(now); err != nil {
		return connect.Retry(err)
	}
	if ok && m.Sequence <= c.end.LastSeq {
		if c.missing++; c.missing > undelivered {
			return connect.Retry(fmt.Errorf("the message with sequence %d has not come", m.Sequence))
		}
		return nil
	}
	c.read = dataflow.Position{Major: c.end.LastSeq, Minor: stamp(c.end.LastTime)}
	b.End, b.EndTime, b.Behind = c.read, c.end.LastTime, 0
	return nil
}

// broken interprets the error when the client has no next message.
func (c *cursor[K, V]) broken(ctx context.Context, err error) error {
	if errors.Is(err, natsjs.ErrConsumerDeleted) || errors.Is(err, nats.ErrConsumerDeleted) {
		if now, err := look(ctx, c.r.stream.JetStream, c.r.stream.Name); err == nil && splitID(now, c.subject) != c.split.ID {
			c.ended = true
			return io.EOF
		}
	}
	return err
}

// Confirm does nothing, because the server stores nothing about readers.
func (c *cursor[K, V]) Confirm(context.Context, dataflow.Position) error { return nil }

func (c *cursor[K, V]) Close() error {
	if c.messages != nil {
		c.messages.Stop()
	}
	if c.consumer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	// If this fails, the server deletes the consumer later.
	_ = c.r.stream.JetStream.DeleteConsumer(ctx, c.r.stream.Name, c.consumer.CachedInfo().Name)
	return nil
}

func (c *cursor[K, V]) fail(ctx context.Context, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	of := fmt.Sprintf("jetstream: %s", c.split)
	if errors.Is(err, connect.ErrGap) { // one from Open ends the split, one from Next was marked as passing
		return fmt.Errorf("%s: %w", of, err)
	}
	return failure(ctx, of, err)
}
