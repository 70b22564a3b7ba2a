package jetstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/internal/journal"
)

// A follower gets the messages of a subject in order, without a gap, and goes on after
// lost servers, lost connections and consumers that servers have forgotten.
//
// Between two calls of its goroutine:
//
//  1. sequences in queue grow strictly and are greater than any taken before,
//  2. size is the sum of the bytes in queue.
type follower struct {
	l               *Log
	stream, subject string
	ctx             context.Context // ends when the follower is closed
	cancel          context.CancelCauseFunc

	mu     sync.Mutex
	queue  []stored
	size   int
	change chan struct{} // closed when something was put or taken
}

// ahead is how many bytes are fetched before somebody takes them.
const ahead = 8 << 20

func (l *Log) follow(stream, subject string, after uint64) *follower {
	f := &follower{l: l, stream: stream, subject: subject, change: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancelCause(l.ctx)
	go f.fetch(after)
	return f
}

func (f *follower) close() { f.cancel(journal.ErrClosed) }

// fetch puts messages into the queue until the follower is closed. Whatever goes wrong,
// it begins again after the last message it has put.
func (f *follower) fetch(last uint64) {
	for try := 0; f.ctx.Err() == nil; try++ {
		before := last
		err := f.consume(&last)
		if f.ctx.Err() != nil {
			return
		}
		f.l.counters.resets.Add(1)
		f.l.logger.Debug("reading again", "subject", f.subject, "after", last, "error", err)
		if last != before {
			try = 0
		}
		if f.l.pause(f.ctx, try) != nil {
			return
		}
	}
}

// consume reads with one consumer until something goes wrong.
func (f *follower) consume(last *uint64) error {
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
	// With the defaults a first pull that gets lost hangs for more than 5 seconds.
	it, err := c.Messages(jetstream.PullExpiry(time.Second), jetstream.PullHeartbeat(500*time.Millisecond),
		jetstream.PullMaxMessagesWithBytesLimit(1024, max(ahead, 2*int(f.l.nc.MaxPayload()))))
	if err != nil {
		return err
	}
	defer it.Stop()
	for delivered := uint64(1); ; delivered++ {
		m, err := it.Next(jetstream.NextContext(f.ctx))
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
		if err := f.put(stored{meta.Sequence.Stream, m.Data()}); err != nil {
			return err
		}
		*last = meta.Sequence.Stream
	}
}

// forget spares the servers a consumer that nobody uses; they would find out themselves.
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

// put adds a message to the queue when there is room.
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

// look waits for messages and returns the first of the queue and those after it that fit
// into max bytes together, without taking them.
func (f *follower) look(ctx context.Context, max int) ([]stored, error) {
	for {
		if f.ctx.Err() != nil {
			return nil, journal.ErrClosed
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f.mu.Lock()
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
		got, change := f.queue[:n:n], f.change
		f.mu.Unlock()
		if n > 0 {
			return got, nil
		}
		select {
		case <-change:
		case <-ctx.Done():
		case <-f.ctx.Done():
		}
	}
}

// take removes what look has returned.
func (f *follower) take(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range n {
		f.size -= len(f.queue[i].data)
		f.queue[i] = stored{}
	}
	if f.queue = f.queue[n:]; len(f.queue) == 0 {
		f.queue = nil
	}
	f.changed()
}
