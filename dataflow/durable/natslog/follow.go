package natslog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A follower receives the messages of a subject in order and without a gap. It continues after
// servers, connections or consumers are lost.
//
// Between two calls of its goroutine:
//
//  1. sequences in queue grow strictly,
//  2. size is the sum of the bytes in queue.
type follower struct {
	l               *Log
	stream, subject string
	expect          uint64          // the last message at the start
	ctx             context.Context // ends when the follower is closed
	cancel          context.CancelCauseFunc

	mu     sync.Mutex
	queue  []stored
	size   int
	change chan struct{}           // closed when a message was added or removed
	leave  context.CancelCauseFunc // ends the consumer that is being read
	given  uint64                  // the last message that the leader gave instead of a consumer

	silence silence // used by look
}

// A silence is what is known of the time since the last message.
type silence struct {
	since      time.Time // that time, or when the leader was last asked for a message
	refusals   int       // errors that it answered
	unanswered int       // questions
}

// errGone says that the leader does not have a message that existed at the start.
var errGone = errors.New("a message is gone")

// errStuck says that a consumer does not deliver what there is.
var errStuck = errors.New("the consumer does not deliver a message that the leader has")

// stalled is how long a consumer that has something to deliver may be silent before the leader is
// asked for it. A server delivers nothing after a message that it cannot read.
const stalled = time.Second

// ahead is how many bytes are fetched before somebody takes them.
const ahead = 8 << 20

func (l *Log) follow(ctx context.Context, stream, subject string, after uint64) (*follower, error) {
	m, err := l.last(ctx, stream, subject)
	if err != nil && !errors.Is(err, errMissing) {
		return nil, err
	}
	f := &follower{l: l, stream: stream, subject: subject, expect: m.sequence, change: make(chan struct{}), leave: func(error) {}, silence: silence{since: time.Now()}}
	f.ctx, f.cancel = context.WithCancelCause(l.ctx)
	go f.fetch(after)
	return f, nil
}

func (f *follower) close() { f.cancel(journal.ErrClosed) }

// fetch adds messages to the queue until the follower is closed. After any failure it starts again
// after the last message that it added or that the leader gave.
func (f *follower) fetch(last uint64) {
	for vain := 0; f.ctx.Err() == nil; { // attempts in a row that added nothing
		before := last
		err := f.consume(&last, min(f.l.patience(vain), time.Minute))
		f.mu.Lock()
		last = max(last, f.given)
		f.mu.Unlock()
		if f.ctx.Err() != nil {
			return
		}
		f.l.counters.resets.Add(1)
		f.l.logger.Debug("reading again", "subject", f.subject, "after", last, "error", err)
		if vain++; last != before {
			vain = 0
		}
		if f.l.pause(f.ctx, vain) != nil {
			return
		}
	}
}

// consume reads with one consumer until something fails. It also ends when the server has sent nothing,
// not even a heartbeat, for as long as a pull lasts, which is at most a minute.
func (f *follower) consume(last *uint64, pull time.Duration) error {
	ctx, cancel := context.WithTimeout(f.ctx, answerWithin)
	defer cancel()
	c, err := f.l.js.CreateConsumer(ctx, f.stream, jetstream.ConsumerConfig{
		FilterSubject: f.subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: *last + 1,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return err
	}
	defer f.forget(c.CachedInfo().Name)
	// With the defaults, a first pull that is lost hangs for more than 5 seconds.
	it, err := c.Messages(jetstream.PullExpiry(pull), jetstream.PullHeartbeat(pull/2),
		jetstream.PullMaxMessagesWithBytesLimit(1024, max(ahead, 2*int(f.l.nc.MaxPayload()))))
	if err != nil {
		return err
	}
	defer it.Stop()
	reading, leave := context.WithCancelCause(f.ctx)
	defer leave(nil)
	f.mu.Lock()
	f.leave = leave
	f.mu.Unlock()
	for delivered := uint64(1); ; delivered++ {
		m, err := it.Next(jetstream.NextContext(reading))
		if reading.Err() != nil {
			return context.Cause(reading)
		}
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Consumer != delivered || meta.Sequence.Stream <= *last {
			return errors.New("a message was lost on the way")
		}
		if err := f.put(stored{meta.Sequence.Stream, m.Data(), m.Headers()}); err != nil {
			return err
		}
		*last = meta.Sequence.Stream
	}
}

// forget deletes a consumer that nobody uses, before its servers would do so themselves.
func (f *follower) forget(consumer string) {
	if f.l.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(f.l.ctx, time.Second)
	defer cancel()
	if err := f.l.js.DeleteConsumer(ctx, f.stream, consumer); err != nil {
		f.l.logger.Debug("a consumer is left to its servers", "error", err)
	}
}

// put adds a message to the queue when it has room.
func (f *follower) put(m stored) error {
	for {
		f.mu.Lock()
		if f.size == 0 || f.size+len(m.data) <= ahead {
			f.queue = append(f.queue, m)
			f.size += len(m.data)
			f.changed()
			f.mu.Unlock()
			return nil
		}
		change := f.change
		f.mu.Unlock()
		select {
		case <-change:
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		}
	}
}

func (f *follower) changed() {
	close(f.change)
	f.change = make(chan struct{})
}

// look waits for messages after a sequence. It returns the first one, and as many after it as
// together fit into max bytes. They stay in the queue until a later call looks for messages after
// them. If the leader has no such message although one existed at the start, look returns errGone.
// One goroutine at a time may call it.
func (f *follower) look(ctx context.Context, after uint64, max int) ([]stored, error) {
	if f.ctx.Err() != nil {
		return nil, journal.ErrClosed
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	got, _ := f.queued(after, max)
	if len(got) == 0 {
		var err error
		if got, err = f.await(ctx, after, max); err != nil {
			return nil, err
		}
	}
	f.silence = silence{since: time.Now()}
	return got, nil
}

// await is look for a message that is not in the queue yet.
//
// It asks the leader about messages that did not exist at the start, too, if nothing has come for longer than the
// largest message takes: a consumer that was made while the server of its replica came back may send heartbeats and
// never deliver what the replica still gets from the leader.
func (f *follower) await(ctx context.Context, after uint64, max int) ([]stored, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, known, pause := &f.silence, after < f.expect, f.l.longest()
	if known {
		pause = stalled
	}
	ask := time.NewTimer(time.Until(s.since.Add(pause)))
	defer ask.Stop()
	answers := make(chan answer, 1)
	for {
		got, change := f.queued(after, max)
		if len(got) > 0 {
			return got, nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-f.ctx.Done():
			return nil, journal.ErrClosed
		case <-ask.C:
			s.since = time.Now() // even if ctx ends before the answer comes
			limit := f.l.patience(s.unanswered)
			go func() { // the consumer may deliver something while the leader does not answer
				m, err := f.l.next(ctx, limit, f.stream, f.subject, after)
				answers <- answer{m, err}
			}()
		case a := <-answers:
			switch {
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case a.err == nil:
				if !known {
					f.mu.Lock()
					f.given = a.message.sequence
					f.leave(errStuck)
					f.mu.Unlock()
				}
				return []stored{a.message}, nil
			case errors.Is(a.err, errMissing) && known:
				return nil, errGone
			case errors.As(a.err, new(*jetstream.APIError)) && known:
				if s.refusals++; s.refusals == 10 {
					return nil, f.l.damaged("the stream %s cannot give the message of %s after %d: %v", f.stream, f.subject, after, a.err)
				}
			case !errors.Is(a.err, errMissing):
				s.unanswered++
			}
			ask.Reset(pause)
		}
	}
}

// An answer is the leader's answer to the question for a message.
type answer struct {
	message stored
	err     error
}

// queued returns what look does, without waiting, and a channel that is closed at the next change.
func (f *follower) queued(after uint64, max int) ([]stored, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := 0
	for taken < len(f.queue) && f.queue[taken].sequence <= after {
		f.size -= len(f.queue[taken].data)
		f.queue[taken] = stored{}
		taken++
	}
	if taken > 0 {
		if f.queue = f.queue[taken:]; len(f.queue) == 0 {
			f.queue = nil
		}
		f.changed()
	}
	n, size := 0, 0
	for i, m := range f.queue {
		if i > 0 {
			size += len(m.data)
		}
		if size > max && i > 0 {
			break
		}
		n++
	}
	return f.queue[:n:n], f.change
}
