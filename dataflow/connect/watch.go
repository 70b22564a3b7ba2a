package connect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect/internal/panics"
)

// An attached is a source with a pump for each split that this process reads.
type attached[K comparable, V any] struct {
	input[K, V]
	pumps   *Pumps
	app     App
	reader  Reader[K, V]
	check   func([]Split) error
	opts    Options
	sending context.Context // ends later than the context of reading, so that batches in progress can be sent
	pumped  map[string]*pumped
	ending  atomic.Bool // a split has ended, and another one may have replaced it
	group   sync.WaitGroup
}

// A pumped is a split that this process knows, with its pump if there is or was one.
type pumped struct {
	split Split
	known bool   // the flow keeps a floor of it, in this or another process
	asked uint64 // the number with which this process has asked for the floor
	read  bool   // together with asked, the flow was told that this process reads the split
	when  time.Time
	stop  context.CancelCauseFunc
	done  chan struct{}
	*meter
}

const (
	// looks is how often to check which splits this process reads. It adds to the time of a takeover.
	looks = 250 * time.Millisecond
	// soon is how often to check while waiting for the floor of a split.
	soon = 10 * time.Millisecond
)

// lookWithin bounds how long a check waits for a location in the middle of a step.
const lookWithin = 5 * time.Second

func (a *attached[K, V]) run(ctx context.Context, splits []Split, err error) {
	failed := a.watch(ctx, splits, err)
	a.pumps.cancel(errStopped)
	a.group.Wait()
	if err := a.reader.Close(); err != nil && failed == nil {
		failed = fmt.Errorf("connect: %s: closing the source: %w", a.name, err)
	}
	a.pumps.end(failed)
}

// splits returns the current splits. With an error that passes, it returns those that were found.
func (a *attached[K, V]) splits(ctx context.Context) ([]Split, error) {
	all, err := a.reader.Splits(ctx)
	if a.check != nil && (err == nil || Passes(err)) {
		if bad := a.check(all); bad != nil {
			return nil, bad
		}
	}
	return all, err
}

// watch keeps a pump running for each split that this process must read, until ctx or the flow ends. It is given the result of the
// first look for splits, whose error passes.
func (a *attached[K, V]) watch(ctx context.Context, splits []Split, err error) error {
	tick := time.NewTimer(looks)
	defer tick.Stop()
	every, pause := a.opts.Discover, firstPause
	var closed time.Time // no look before that: the source asks for it
	looked := func(at time.Time) {
		a.pumps.looked(err)
		if err == nil {
			every, pause = a.opts.Discover, firstPause
			return
		}
		a.opts.OnError(Split{}, err)
		every, pause = pauseAfter(err, pause), min(2*pause, longestPause)
		closed = at.Add(pauseAfter(err, 0))
	}
	discovered := time.Now()
	for looked(discovered); ; {
		tick.Reset(a.placeAll(ctx, splits))
		select {
		case <-tick.C:
		case <-a.app.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
		if begun := time.Now(); begun.Before(closed) || !a.ending.Swap(false) && begun.Sub(discovered) < every {
			continue
		}
		discovered = time.Now()
		var now []Split
		now, err = a.splits(ctx)
		switch {
		case err == nil:
			splits = now
		case ctx.Err() != nil:
			return nil
		case !Passes(err):
			return fmt.Errorf("connect: %s: looking for splits: %w", a.name, err)
		default:
			splits = together(splits, now)
		}
		looked(discovered)
	}
}

// together returns the splits that were known and those that were found while others could not be.
func together(known, found []Split) []Split {
	all := slices.Clone(known) // it may be the reader's
	has := make(map[string]bool, len(known))
	for _, s := range known {
		has[s.ID] = true
	}
	for _, s := range found {
		if !has[s.ID] {
			all = append(all, s)
		}
	}
	return all
}

// placeAll places splits, and returns after which time to do it again.
func (a *attached[K, V]) placeAll(ctx context.Context, splits []Split) (next time.Duration) {
	looking, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	all, keys := make([]*pumped, 0, len(splits)), make([]place, 0, len(splits))
	for _, s := range splits {
		r := a.pumped[s.ID]
		if r == nil {
			r = &pumped{split: s, meter: a.pumps.meter(s)}
			a.pumped[s.ID] = r
		}
		if !r.ended() {
			all, keys = append(all, r), append(keys, place{a.name, s.ID})
		}
	}
	floors := make([]*floor, len(keys))
	looked := dataflow.StatesOf(looking, a.app, keys, func(i int, f *floor) {
		is := *f
		floors[i] = &is
	})
	if looked != nil {
		a.unplaced(ctx, all, looked)
		return looks
	}
	var asking []*pumped
	var asked []place
	var questions []floor
	next = looks
	for i, r := range all {
		ask, waits := a.place(ctx, r, floors[i])
		if ask {
			r.asked, r.when, r.read = rand.Uint64()|1, time.Now(), floors[i] != nil
			asking, asked, questions = append(asking, r), append(asked, keys[i]), append(questions, floor{Asked: r.asked})
		}
		if waits {
			next = soon
		}
	}
	if len(asking) == 0 {
		return next
	}
	sending, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	if err := a.announce(sending, asking); err != nil {
		a.unplaced(ctx, asking, err)
		return looks
	}
	if _, err := a.floors.SendBatch(sending, asked, questions); err != nil {
		a.unplaced(ctx, asking, err)
		return looks
	}
	for _, r := range asking {
		r.known = true
	}
	return next
}

// unplaced reports for each split that its reader is not known.
func (a *attached[K, V]) unplaced(ctx context.Context, all []*pumped, err error) {
	if ctx.Err() != nil {
		return
	}
	for _, r := range all {
		err := fmt.Errorf("connect: %s: looking for its floor: %w", r.split, err)
		r.failed(err)
		a.opts.OnError(r.split, err)
	}
}

// place starts the pump of a split that this process must read, and stops that of a split that another process reads. The owner
// of the partition of the floor reads the split. f is nil in all other processes.
//
// The state that f comes from is that of some step, and the floor that was sent last may not be in it yet. So the process sends a
// record that asks for the floor: once that record is taken, everything sent before is taken too. place returns whether to ask,
// and whether an answer is awaited.
func (a *attached[K, V]) place(ctx context.Context, r *pumped, f *floor) (ask, waits bool) {
	if f == nil {
		r.asked = 0
		if r.stop != nil {
			r.stop(errElsewhere)
		}
		if r.known {
			r.failed(nil)
		}
		return !r.known, !r.known // the owner of the partition learns of the split
	}
	if r.done != nil {
		select {
		case <-r.done:
		default:
			return false, false
		}
	}
	if r.asked == 0 || f.Asked != r.asked {
		return r.asked == 0 || time.Since(r.when) >= looks, true
	}
	if a.notices != nil && !r.read {
		return true, true // the flow knows that the split exists, but not who reads it
	}
	r.failed(nil)
	asked := r.asked
	r.asked, f.Asked = 0, 0
	reading, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	r.stop, r.done = stop, done
	p := &pump[K, V]{attached: a, split: r.split, floor: *f, meter: r.meter, silence: silence{as: asked, behind: -1}, refusals: a.opts.refusals()}
	a.group.Go(func() {
		defer close(done)
		defer stop(nil)
		returned := false
		defer func() {
			if !returned { // a function that decodes has ended this goroutine
				p.giveUp(fmt.Errorf("connect: %s: %w", p.split, panics.ErrGoexit))
			}
		}()
		p.run(reading)
		returned = true
	})
	return false, false
}

var errElsewhere = errors.New("connect: another process reads the split")
