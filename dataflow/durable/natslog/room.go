package natslog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// MaxBytes is divided between the two streams, and the servers refuse what exceeds the part of a
// stream. So records cannot take the room of steps, nor steps that of records. The servers do not
// know the purposes within a stream. There the log itself enforces the shares: it asks the servers
// for the size from time to time, and counts what it has published since.
const (
	sizeEvery = time.Second           // on a cluster, where others publish too
	sizeRetry = 10 * time.Millisecond // for callers that are refused
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

// share returns how much of a stream's part may be kept after an addition for a purpose. Snapshots,
// and records that are not sends, may use all of it. A send needs no room among steps, but the
// steps that follow from it do, so sends have a share there too.
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

// ceiling returns the limit for a stream at its servers, given the previous limit, which is not
// positive if there was none. It returns -1 for no limit. A stream whose part was made smaller may
// keep more than its part, because otherwise the additions that make room would have no room.
func ceiling(part int64, kept uint64, before int64) int64 {
	switch {
	case part == 0:
		return -1
	case before > 0 && before <= part:
		return part
	}
	return journal.Ceiling(part, int64(kept))
}

// A stream is what a log knows about the size of one of its streams.
type stream struct {
	name    string
	records bool
	part    int64 // of MaxBytes, zero for no limit

	mu      sync.Mutex // held while servers are asked
	kept    int64      // size when they were last asked
	ceiling int64      // their limit at that time
	since   int64      // bytes published by this log since
	looked  time.Time
}

// admit counts bytes that are added to a stream, or returns an error if they cannot be.
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

// take reserves bytes in a stream, or returns an error if the stream has no room for them.
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
	if beyond() && age > sizeRetry || s.since > s.part/32 || l.embedded == nil && age > sizeEvery {
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

// messageOverhead is about how many bytes a message takes in addition to its data: its subject,
// headers and what the servers add.
const messageOverhead = 200

// look asks the servers for the size of a stream. The caller holds s.mu.
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

// tight reports whether additions are refused or soon will be.
func (s *stream) tight(kept int64) bool {
	if s.part == 0 {
		return false
	}
	if s.records {
		return kept >= s.part-s.part/4
	}
	return kept >= s.part/3
}

// crowded returns an error if sends were refused, or would have been, when
// the servers were last asked.
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

// bounded returns the configuration of a stream that keeps kept bytes and had the limit before.
func bounded(cfg jetstream.StreamConfig, part int64, kept uint64, before int64) jetstream.StreamConfig {
	cfg.MaxBytes = ceiling(part, kept, before)
	return cfg
}
