package journal

import (
	"context"
	"fmt"
	"sync"
)

// Room says how much a log keeps, and how much it may keep.
type Room struct {
	Kept  int64 // bytes of the records, steps, pieces and snapshots of all partitions
	Limit int64 // that OpenOptions.MaxBytes says; zero if there is none
	Free  int64 // that pieces of states may still take, if there is a limit
	// Tight says that appends are refused, or will be soon, so that all owners should save
	// snapshots and purge what is behind them.
	Tight bool
}

// A Purpose is what something is added to a log for. The limit of a log has a share for each
// purpose, so that sends cannot take the room of what makes room: a state that is written anew, as
// large as all that is kept at most, while what it was before is there too.
type Purpose int

// Each purpose may fill more of the limit than those before it.
const (
	ToSend Purpose = iota // Append: two fifths of the limit
	ToGoOn                // Commit, and Append of what follows from what was accepted: half of it
	ToSave                // SavePiece: all but a fortieth
	ToEnd                 // SaveSnapshot: all of it
)

// Share returns how much may be kept, of a limit, when something was added for a purpose.
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

// tight returns how much is kept, of a limit, when snapshots should be saved.
func tight(limit int64) int64 { return limit / 3 }

type purposeKey struct{}

// For returns a context with which an addition to a log is for at least a purpose: more of the
// limit is there for it than the method has otherwise. It is for that without which nothing can be
// forgotten, such as the record that says that an output was read.
func For(ctx context.Context, p Purpose) context.Context {
	return context.WithValue(ctx, purposeKey{}, PurposeOf(ctx, p))
}

// PurposeOf returns what an addition with a context is for, at least what its method is for:
// [ToSend] of [Log.Append], [ToGoOn] of [Log.Commit].
func PurposeOf(ctx context.Context, least Purpose) Purpose {
	p, _ := ctx.Value(purposeKey{}).(Purpose)
	return max(p, least)
}

// A Bound counts what a log keeps, and decides what it may add. It is for those who make a [Log].
// Its methods may be used by any number of goroutines.
//
// A log whose limit was lowered may keep so much that it has no room for the snapshots that make
// room. So they have [Ceiling] instead of the limit, and steps their share of that, which goes
// down, with what is kept, until it is the limit.
type Bound struct {
	mu      sync.Mutex
	limit   int64
	ceiling int64 // for all but sends
	kept    int64
}

// NewBound returns the bound of a log that keeps so many bytes already, and of these so many of
// records and steps: more of them than their share of the limit are there only if the limit was
// lowered. A limit of zero is none.
func NewBound(limit, kept, history int64) *Bound {
	b := &Bound{limit: limit, ceiling: Ceiling(limit, history), kept: kept}
	if kept > limit {
		b.ceiling = Ceiling(limit, kept)
	}
	return b
}

// Ceiling returns how much a log may keep, until it keeps less, that keeps so many bytes when its
// limit is lowered: two and a half times as much at most, and no more than the limit if half of
// that, the share of steps, is free.
func Ceiling(limit, kept int64) int64 {
	return max(limit, min(4*kept-limit, 2*kept+kept/2))
}

// Add counts bytes that are added for a purpose, or returns [ErrFull]. It returns [ErrTooLarge]
// for a send that could never be accepted.
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

// Free counts bytes that are kept no longer, or were not added after all.
func (b *Bound) Free(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept -= size
	b.ceiling = min(b.ceiling, Ceiling(b.limit, b.kept))
}

// Room returns what is kept.
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
