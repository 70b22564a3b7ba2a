package journal

import (
	"context"
	"fmt"
	"sync"
)

// Room says how much a log keeps and how much it may keep.
type Room struct {
	Kept  int64 // bytes of the records, steps, pieces and snapshots of all partitions
	Limit int64 // OpenOptions.MaxBytes; zero if there is no limit
	Free  int64 // how many bytes pieces of states may still take, if there is a limit
	// Tight says that appends are refused or soon will be, so all owners should save snapshots and
	// purge what the snapshots cover.
	Tight bool
}

// A Purpose is the reason for adding something to a log. Each purpose has a share of the log's
// limit, so sends cannot use the room that is needed to make room: a state that is written anew,
// while the old one is still kept, may be as large as everything that is kept.
type Purpose int

// Each purpose may fill a larger part of the limit than those before it.
const (
	ToSend Purpose = iota // Append: two fifths of the limit
	ToGoOn                // Commit, and Append of records that follow from accepted ones: half of it
	ToSave                // SavePiece: all but a fortieth
	ToEnd                 // SaveSnapshot: all of it
)

// Share returns how many bytes, out of a limit, may be kept after an addition for the purpose.
func (p Purpose) Share(limit int64) int64 {
	switch p {
	case ToSend:
		return limit * 2 / 5
	case ToGoOn:
		return limit / 2
	case ToSave:
		return limit - limit/40
	}
	return limit
}

// tight returns how many bytes, out of a limit, may be kept before snapshots should be saved.
func tight(limit int64) int64 { return limit / 3 }

type purposeKey struct{}

// For returns a context that raises the purpose of an addition to at least p, so that the addition
// may use more of the limit than its method otherwise can. It is for additions without which
// nothing can be purged, such as the record that says that an output was read.
func For(ctx context.Context, p Purpose) context.Context {
	return context.WithValue(ctx, purposeKey{}, PurposeOf(ctx, p))
}

// PurposeOf returns the purpose of an addition: that of its context, or least, which is
// the purpose of its method, whichever is greater. That is [ToSend] for [Log.Append]
// and [ToGoOn] for [Log.Commit].
func PurposeOf(ctx context.Context, least Purpose) Purpose {
	p, _ := ctx.Value(purposeKey{}).(Purpose)
	return max(p, least)
}

// A Bound counts how much a log keeps and decides what may be added. It is for implementations of
// [Log]. Any number of goroutines may call its methods.
//
// If the limit of a log was lowered, the log may keep so much that it has no room for the snapshots
// that make room. Therefore snapshots may use up to [Ceiling] instead of the limit, and steps their
// share of that. The ceiling falls with the amount that is kept until it equals the limit.
type Bound struct {
	mu      sync.Mutex
	limit   int64
	ceiling int64 // the limit for everything except sends
	kept    int64
}

// NewBound returns the bound of a log that keeps kept bytes already, of which history are records
// and steps. The history exceeds its share of the limit only if the limit was lowered. A limit of
// zero means none.
func NewBound(limit, kept, history int64) *Bound {
	b := &Bound{limit: limit, ceiling: Ceiling(limit, history), kept: kept}
	if kept > limit {
		b.ceiling = Ceiling(limit, kept)
	}
	return b
}

// Ceiling returns how much a log that keeps kept bytes may keep after its limit was lowered, until
// it keeps less. That is at most two and a half times kept. If at least half of the limit, the
// share of steps, is free, it is the limit itself.
func Ceiling(limit, kept int64) int64 {
	return max(limit, min(4*kept-limit, 2*kept+kept/2))
}

// Add counts bytes that are added for a purpose, or returns [ErrFull]. It returns [ErrTooLarge] for
// a send that could never be accepted.
func (b *Bound) Add(p Purpose, size int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit > 0 && size > 0 {
		most := p.Share(b.limit)
		if p != ToSend {
			most = p.Share(b.ceiling)
		}
		switch {
		case p == ToSend && size > most:
			return fmt.Errorf("%w: %d bytes of records, and MaxBytes is %d, of which sends have %d", ErrTooLarge, size, b.limit, most)
		case b.kept+size > most:
			return fmt.Errorf("%w: %d bytes are kept, MaxBytes is %d, and %d more would be beyond %d", ErrFull, b.kept, b.limit, size, most)
		}
	}
	b.kept += size
	return nil
}

// Free subtracts bytes that are no longer kept, or that were not added after all.
func (b *Bound) Free(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept -= size
	b.ceiling = min(b.ceiling, Ceiling(b.limit, b.kept))
}

// Room returns the current room.
func (b *Bound) Room() Room {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit == 0 {
		return Room{Kept: b.kept}
	}
	return Room{Kept: b.kept, Limit: b.limit, Free: max(ToSave.Share(b.ceiling)-b.kept, 0), Tight: b.kept >= tight(b.limit)}
}

// Condition returns [ErrFull] while sends are refused.
func (b *Bound) Condition() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit > 0 && b.kept >= ToSend.Share(b.limit) {
		return fmt.Errorf("%w: %d bytes are kept, and MaxBytes is %d", ErrFull, b.kept, b.limit)
	}
	return nil
}
