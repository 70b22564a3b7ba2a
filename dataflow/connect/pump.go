package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A pump sends the records of one split to the flow.
//
// Two pumps of one split, in two processes, do no harm. Both read the same records in the same order, from some floor that is not
// after what is durable, and send a batch only when the previous one is accepted. So in the log of each partition the first
// occurrences are in order and without a gap, and everything else is at a position that the partition has. Sending several
// batches at once would break that: if a batch failed and a later one did not, the partition would remember the position of the
// later one and drop the failed one when it is sent again.
type pump[K comparable, V any] struct {
	*attached[K, V]
	split Split
	floor floor
	*meter
	silence
	refusals

	last dataflow.Position // everything up to it was sent
	told time.Time         // when a floor was last kept

	confirmed dataflow.Position
	bad       int // bad records in a row
}

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

// run reads the split, and again after errors that pass.
func (p *pump[K, V]) run(ctx context.Context) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		before := p.floor
		err := p.read(ctx)
		if err == nil || ctx.Err() != nil {
			p.over(err, false)
			return
		}
		if !Passes(err) {
			p.giveUp(err)
			return
		}
		p.opts.OnError(p.split, err)
		p.failed(err)
		if p.floor != before {
			pause = firstPause
		}
		if !wait(ctx, pauseAfter(err, pause)) {
			p.over(nil, false)
			return
		}
	}
}

// giveUp ends the split because of an error that does not pass, or io.EOF.
func (p *pump[K, V]) giveUp(err error) {
	if err != io.EOF {
		p.opts.OnError(p.split, err)
	}
	p.over(err, true)
	p.ending.Store(true)
}

// wait waits for d. It returns false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads the split from its floor until ctx ends or it cannot continue. The end of ctx is no error. It returns io.EOF if the
// split has ended.
func (p *pump[K, V]) read(ctx context.Context) error {
	if p.floor.Version != p.opts.Version && !p.floor.Clean {
		return fmt.Errorf("%w: %s: up to %v it was read by version %q, and now by %q: stop that version in order, or read into another input", ErrVersion, p.split, p.floor.Position, p.floor.Version, p.opts.Version)
	}
	c, err := p.open(ctx)
	if err != nil {
		return err
	}
	err = p.pump(ctx, c)
	if closed := c.Close(); closed != nil && (err == nil || err == io.EOF) {
		return fmt.Errorf("connect: %s: closing: %w", p.split, closed)
	}
	return err
}

// open opens the split at its floor.
func (p *pump[K, V]) open(ctx context.Context) (Cursor[K, V], error) {
	p.last = p.floor.Position
	c, err := p.reader.Open(ctx, p.split, p.last)
	if errors.Is(err, ErrGap) && p.opts.SkipGaps {
		// The letter is after the floor and before all that follows, and it is the same one after a crash.
		gap := Poison{Split: p.split.ID, At: dataflow.Position{Major: p.last.Major, Minor: p.last.Minor + 1}, Cause: err.Error()}
		if err := sent(p.opts.DeadLetters.send(p.sending, p.name, p.split, []Poison{gap})); err != nil {
			return nil, fmt.Errorf("connect: %s: the dead letter of a gap: %w", p.split, err)
		}
		p.poisoned(1)
		c, err = p.reader.Open(ctx, p.split, dataflow.Position{})
	}
	if err != nil {
		return nil, fmt.Errorf("connect: %s: opening behind %v: %w", p.split, p.last, err)
	}
	return c, nil
}

// pump sends the records of a cursor.
func (p *pump[K, V]) pump(ctx context.Context, c Cursor[K, V]) error {
	if err := p.keep(false); err != nil { // from now on something may be sent that is after the floor
		return err
	}
	if err := p.awakens(); err != nil {
		return err
	}
	p.opened(p.last)
	defer p.recovers()()
	p.told, p.confirmed = time.Now(), p.floor.Position
	var b Batch[K, V]
	for ctx.Err() == nil {
		b.Reset()
		err := p.next(ctx, c, &b)
		if err != nil && !errors.Is(err, io.EOF) {
			if ctx.Err() != nil {
				break
			}
			return fmt.Errorf("connect: %s: behind %v: %w", p.split, p.last, err)
		}
		end := err != nil
		if err := p.take(&b); err != nil {
			return err
		}
		if end {
			if err := p.ends(); err != nil {
				return err
			}
		}
		if end || time.Since(p.told) >= p.opts.Floor {
			if err := p.tell(ctx, c, end); err != nil {
				return err
			}
		}
		if end {
			return io.EOF
		}
	}
	if context.Cause(ctx) == errElsewhere {
		return nil
	}
	if err := p.keep(true); err != nil {
		return err
	}
	return p.confirm(p.sending, c)
}

// next lets the cursor read. If the cursor waits beyond the time of the next floor, next keeps that floor meanwhile.
func (p *pump[K, V]) next(ctx context.Context, c Cursor[K, V], b *Batch[K, V]) (err error) {
	begun := time.Now()
	heard := p.listen(ctx, c)
	defer func() {
		p.waited(time.Since(begun))
		if silent := heard(b, time.Since(begun)); silent != nil && err == nil {
			err = silent
		}
	}()
	if !p.last.After(p.floor.Position) {
		return c.Next(ctx, b)
	}
	kept := make(chan error, 1)
	silent := time.AfterFunc(time.Until(p.told.Add(p.opts.Floor)), func() { kept <- p.keep(false) })
	err = c.Next(ctx, b)
	if !silent.Stop() {
		if failed := <-kept; failed != nil && err == nil {
			return failed
		}
	}
	return err
}

// tell keeps the floor and confirms it.
func (p *pump[K, V]) tell(ctx context.Context, c Cursor[K, V], clean bool) error {
	p.told = time.Now()
	if clean || p.last.After(p.floor.Position) {
		if err := p.keep(clean); err != nil {
			return err
		}
	}
	if p.floor.Position == p.confirmed {
		return nil
	}
	return p.confirm(ctx, c)
}

func (p *pump[K, V]) confirm(ctx context.Context, c Cursor[K, V]) error {
	if err := c.Confirm(ctx, p.floor.Position); err != nil && ctx.Err() == nil {
		return fmt.Errorf("connect: %s: confirming %v: %w", p.split, p.floor.Position, err)
	}
	p.confirmed = p.floor.Position
	return nil
}

// keep makes the position of the split durable. Clean says that nothing after that was or will be sent.
func (p *pump[K, V]) keep(clean bool) error {
	next := floor{Position: p.last, Version: p.opts.Version, Clean: clean}
	if next == p.floor {
		return nil
	}
	if err := sent(p.floors.Send(p.sending, place{p.name, p.split.ID}, next)); err != nil {
		return fmt.Errorf("connect: %s: keeping position %v: %w", p.split, p.last, err)
	}
	p.floor = next
	p.kept(p.last)
	return nil
}

// take sends a batch.
func (p *pump[K, V]) take(b *Batch[K, V]) error {
	if len(b.Keys) != len(b.At) || len(b.Values) != len(b.At) {
		return fmt.Errorf("%w: %s: a batch has %d keys, %d values and %d positions", ErrOrder, p.split, len(b.Keys), len(b.Values), len(b.At))
	}
	if err := p.check(b); err != nil {
		return err
	}
	begun := time.Now()
	refused, err := p.sendAll(p.sending, p.split.ID, b, &p.refusals)
	if err != nil {
		return fmt.Errorf("connect: %s: sending what is behind %v: %w", p.split, p.last, err)
	}
	// A letter is dropped if one of a later position was there before, so those of a batch are sent together.
	letters := append(refused, b.Bad...)
	slices.SortFunc(letters, func(x, y Poison) int {
		if x.At.After(y.At) {
			return 1
		}
		return -1 // no two are equal
	})
	if len(letters) > 0 {
		if err := sent(p.opts.DeadLetters.send(p.sending, p.name, p.split, letters)); err != nil {
			return fmt.Errorf("connect: %s: dead letters at %v: %w", p.split, letters[0].At, err)
		}
		p.poisoned(len(letters))
	}
	if b.End.After(p.last) {
		p.last = b.End
	}
	p.counted(len(b.At)-len(refused), p.last, b.EndTime, b.Behind, time.Since(begun))
	return nil
}

// sent returns the error of a send. Most errors pass, such as a log that cannot be reached: then the records are read and sent
// again. The error does not pass if it concerns a key, if a record is too large for the log, or if the port is closed.
func sent(err error) error {
	if errors.Is(err, dataflow.ErrClosed) || errors.Is(err, journal.ErrTooLarge) || errors.As(err, new(*dataflow.KeyError)) {
		return err
	}
	return Retry(err)
}

// check checks that the positions of a batch grow, over its records and bad records, and that not
// too many bad records come in a row.
func (p *pump[K, V]) check(b *Batch[K, V]) error {
	last := p.last
	for i, j := 0, 0; i < len(b.At) || j < len(b.Bad); {
		var at dataflow.Position
		if j == len(b.Bad) || i < len(b.At) && b.Bad[j].At.After(b.At[i]) {
			at, p.bad = b.At[i], 0
			i++
		} else {
			bad := b.Bad[j]
			at = bad.At
			j++
			if p.bad++; p.opts.DeadLetters == nil {
				return fmt.Errorf("connect: %s: the record at %v cannot be decoded, and there is nowhere for dead letters: %s", p.split, at, bad.Cause)
			} else if p.bad > p.opts.MostBad {
				return fmt.Errorf("connect: %s: %d records in a row cannot be decoded, up to that at %v: %s", p.split, p.bad, at, bad.Cause)
			}
		}
		if !at.After(last) {
			return fmt.Errorf("%w: %s: %v comes behind %v", ErrOrder, p.split, at, last)
		}
		last = at
	}
	if len(b.At)+len(b.Bad) > 0 && last.After(b.End) {
		return fmt.Errorf("%w: %s: the batch ends at %v, and has a record at %v", ErrOrder, p.split, b.End, last)
	}
	return nil
}
