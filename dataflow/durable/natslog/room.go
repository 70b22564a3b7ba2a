package natslog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// MaxBytes is divided between the two streams, whose servers refuse what is beyond their parts:
// what came in cannot take the room of steps, nor steps that of records. Within a stream the
// servers know no purposes. There a log itself keeps to shares, by what it asks the servers now and
// then, and counts what it has published since.
const (
	lookAgain = time.Second           // on a cluster, where others publish as well
	lookApart = 10 * time.Millisecond // by callers who are refused
)

// bounds returns the parts of the limit that the two streams have, zero for none.
func (s *settings) bounds() (in, st int64) {
	switch {
	case s.MaxBytes == 0:
		return 0, s.MaxStepBytes
	case s.MaxStepBytes != 0:
		return s.MaxBytes - s.MaxStepBytes, s.MaxStepBytes
	}
	in = s.MaxBytes * 2 / 5
	return in, s.MaxBytes - in
}

// share returns how much of a stream's part may be kept when something was added for a purpose.
// Snapshots, and records that are not sends, have all of it. A send needs no room among steps, but
// what follows from it does: so there is a share of them as well.
func share(p journal.Purpose, records bool, limit int64) int64 {
	switch {
	case p == journal.ToSend && records:
		return limit - limit/5
	case p == journal.ToSend:
		return limit * 2 / 5
	case records:
		return limit
	case p == journal.ToGoOn:
		return limit / 2
	case p == journal.ToSave:
		return limit - limit/20
	}
	return limit
}

// ceiling returns the limit that a stream has at its servers, where it had another one before, or
// none, if that is not positive. One whose part was made smaller may keep more, or what makes room
// had none.
func ceiling(part int64, kept uint64, before int64) int64 {
	switch {
	case part == 0:
		return -1
	case before > 0 && before <= part:
		return part
	}
	return journal.Ceiling(part, int64(kept))
}

// A stream is what a log knows of how much one of its streams keeps.
type stream struct {
	name    string
	records bool
	part    int64 // of MaxBytes, zero for none

	mu      sync.Mutex // held while servers are asked
	kept    int64      // when they were asked
	ceiling int64      // their limit then
	since   int64      // published by this log since
	looked  time.Time
}

// admit counts bytes that are added to a stream, or returns why they cannot be.
func (l *Log) admit(ctx context.Context, s *stream, p journal.Purpose, size int) error {
	more := int64(size) + messageOverhead
	if p == journal.ToSend {
		if most := share(p, s.records, s.part); s.part != 0 && more > most {
			return fmt.Errorf("%w: %d bytes of records, and sends have %d of MaxBytes (%d)", journal.ErrTooLarge, size, most, l.opts.MaxBytes)
		}
		if err := l.take(ctx, &l.steps, p, 0); err != nil {
			return err
		}
	}
	return l.take(ctx, s, p, more)
}

// take counts bytes that a stream has then, or returns why it cannot have them.
func (l *Log) take(ctx context.Context, s *stream, p journal.Purpose, more int64) error {
	if s.part == 0 {
		return nil
	}
	most := share(p, s.records, s.part)
	s.mu.Lock()
	defer s.mu.Unlock()
	beyond := func() bool {
		if p != journal.ToSend {
			most = share(p, s.records, max(s.part, s.ceiling))
		}
		return s.kept+s.since+more > most
	}
	age := time.Since(s.looked)
	if beyond() && age > lookApart || s.since > s.part/32 || l.embedded == nil && age > lookAgain {
		if err := l.look(ctx, s); err != nil {
			return err
		}
	}
	if beyond() {
		return fmt.Errorf("%w: the stream %s keeps %d bytes, its part of MaxBytes (%d) is %d, and %d more would be beyond %d", journal.ErrFull, s.name, s.kept+s.since, l.opts.MaxBytes, s.part, more, most)
	}
	s.since += more
	return nil
}

// messageOverhead is about what a message takes besides its bytes: its subject, headers and what
// the servers add.
const messageOverhead = 200

// look asks the servers how much a stream keeps. It is called with the lock.
func (l *Log) look(ctx context.Context, s *stream) error {
	return l.persist(ctx, "ask for the size of "+s.name, func(ctx context.Context) error {
		found, err := l.js.Stream(ctx, s.name)
		if err != nil {
			return err
		}
		info := found.CachedInfo()
		s.kept, s.ceiling, s.since, s.looked = int64(info.State.Bytes), info.Config.MaxBytes, 0, time.Now()
		if want := ceiling(s.part, info.State.Bytes, s.ceiling); s.part != 0 && want < s.ceiling {
			info.Config.MaxBytes = want
			if _, err := l.js.UpdateStream(ctx, info.Config); err != nil {
				return err
			}
			s.ceiling = want
		}
		return nil
	})
}

// Room asks the servers how much is kept.
func (l *Log) Room(ctx context.Context) (journal.Room, error) {
	if err := l.ready(ctx, 0); err != nil {
		return journal.Room{}, err
	}
	r := journal.Room{Limit: l.opts.MaxBytes}
	if r.Limit == 0 {
		r.Limit = l.opts.MaxStepBytes
	}
	for _, s := range []*stream{&l.records, &l.steps} {
		s.mu.Lock()
		err := l.look(ctx, s)
		kept, most := s.kept, s.ceiling
		s.mu.Unlock()
		if err != nil {
			return journal.Room{}, err
		}
		if s.part != 0 || r.Limit == 0 {
			r.Kept += kept
		}
		r.Tight = r.Tight || s.tight(kept)
		if s.part != 0 && !s.records {
			r.Free = max(share(journal.ToSave, false, max(s.part, most))-kept, 0)
		}
	}
	return r, nil
}

// tight reports whether something is refused, or will be soon.
func (s *stream) tight(kept int64) bool {
	if s.part == 0 {
		return false
	}
	if s.records {
		return kept >= s.part-s.part/4
	}
	return kept >= s.part/3
}

// crowded returns an error if sends were refused, or would be, when the servers were asked last.
func (s *stream) crowded() error {
	if !s.mu.TryLock() {
		return nil // they are being asked
	}
	defer s.mu.Unlock()
	if kept := s.kept + s.since; s.part != 0 && kept >= share(journal.ToSend, s.records, s.part) {
		return fmt.Errorf("%w: the stream %s keeps %d bytes, and its part of MaxBytes is %d", journal.ErrFull, s.name, kept, s.part)
	}
	return nil
}

// bounded returns how a stream is set up that keeps so many bytes and had a limit before.
func bounded(cfg jetstream.StreamConfig, part int64, kept uint64, before int64) jetstream.StreamConfig {
	cfg.MaxBytes = ceiling(part, kept, before)
	return cfg
}
