package durable

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A witnessing is what a process tells the witness.
type witnessing struct {
	mu     sync.Mutex
	latest []sighting // by partition: steps that this process has committed or found
	saved  []sighting // of these, what needs no telling
	err    error      // why the witness did not hear of all of them
	said   time.Time  // when the logger heard of that
	noted  bool       // the logger has heard that the witness knew nothing
}

// checkWitness returns an error if the witness that the options say is in no right place.
func (c *core) checkWitness() error {
	if w, ok := c.opts.Witness.(*patientWitness); ok {
		if dir, ok := w.Witness.(witnessDir); ok {
			return dir.ready(c.opts.Log)
		}
	}
	return nil
}

// beginWitness begins to tell the witness, if there is one.
func (c *core) beginWitness() {
	if c.opts.Witness == nil || c.opts.Client {
		return
	}
	n := c.log.Partitions()
	c.seen.latest, c.seen.saved = make([]sighting, n), make([]sighting, n)
	c.tasks.Go(c.tellWitness)
}

// sighted returns what the witness knows of the partition. It has to be asked before the history is
// read. One that does not answer stops nothing.
func (o *owner) sighted(ctx context.Context) (*sighting, error) {
	if o.opts.Witness == nil || o.looking {
		return nil, nil
	}
	s, err := loadSighting(ctx, o.opts.Witness, o.log.Identity(), o.partition)
	if err == nil || ctx.Err() != nil || errors.As(err, new(*witnessError)) {
		return s, err
	}
	o.seen.failed(o.core, fmt.Errorf("durable: a start of partition %d was not compared with the witness: %w", o.partition, err))
	return &sighting{}, nil
}

// compare returns an error if a history is behind what the witness knows.
func (o *owner) compare(ctx context.Context, seen *sighting, h *journal.History) error {
	if why := seen.misfit(ctx, o.log, o.of, h); why != "" {
		return &olderStepsError{why: why}
	}
	if seen == nil && o.opts.Witness != nil && h.Fence != 0 && !o.looking {
		o.seen.mu.Lock()
		defer o.seen.mu.Unlock()
		if !o.seen.noted {
			o.seen.noted = true
			o.opts.Logger.Warn("the witness knows nothing of a partition, and is told from now on: is it the right one?", "partition", o.partition)
		}
	}
	return nil
}

// witness has the witness told of the last step.
func (o *owner) witness() {
	if o.opts.Witness == nil || o.fence == 0 {
		return
	}
	s := sighting{o.log.Identity(), o.partition, o.fence, o.last.link, o.last.clock + o.last.now}
	o.seen.mu.Lock()
	defer o.seen.mu.Unlock()
	o.seen.latest[o.partition] = s
}

// tellWitness tells the witness of steps until the flow has ended.
func (c *core) tellWitness() {
	each := time.NewTicker(witnessEach)
	defer each.Stop()
	for {
		select {
		case <-each.C:
			c.saveSightings(c.ctx)
		case <-c.done:
			if !c.abandoned.Load() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Second)
				c.saveSightings(ctx)
				cancel()
			}
			return
		}
	}
}

// saveSightings tells the witness of the steps that it does not know.
func (c *core) saveSightings(ctx context.Context) {
	c.seen.mu.Lock()
	latest := slices.Clone(c.seen.latest)
	c.seen.mu.Unlock()
	for p, s := range latest {
		if s == c.seen.saved[p] { // saved belongs to this goroutine
			continue
		}
		if err := c.saveSighting(ctx, &s); err != nil {
			if ctx.Err() == nil {
				c.seen.failed(c, fmt.Errorf("durable: the witness was not told of %v of partition %d: %w", &s, p, err))
			}
			return
		}
		c.seen.saved[p] = s
	}
	c.seen.mu.Lock()
	c.seen.err = nil
	c.seen.mu.Unlock()
}

// saveSighting saves what the witness is to know, unless it knows of a later step. An owner that
// others have replaced may come late. If two of them save at the same time, what the witness knows may go back
// until the next step is told: it is a step of the history all the same.
func (c *core) saveSighting(ctx context.Context, s *sighting) error {
	was, err := loadSighting(ctx, c.opts.Witness, s.history, s.partition)
	switch {
	case err != nil:
		return err
	case was == nil || was.fence < s.fence:
		return c.opts.Witness.Save(ctx, s.partition, s.encode())
	case was.fence == s.fence && was.link != s.link, was.fence > s.fence && c.shared == nil:
		return fmt.Errorf("it knows %v: the history is an older copy; stop the flow, and see what `millrace durable check` says", was)
	}
	return nil
}

// failed notes that the witness fails, and lets the logger know now and then.
func (w *witnessing) failed(c *core, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	if now := time.Now(); now.Sub(w.said) >= witnessAgain {
		w.said = now
		c.opts.Logger.Error("the witness fails, and the flow goes on", "error", err)
	}
}

// condition returns why the witness did not hear of all steps, or was not asked at a start.
func (w *witnessing) condition() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// inside reports whether a folder is another one or in it.
func inside(dir, other string) bool {
	real := func(path string) string {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		if is, err := filepath.EvalSymlinks(path); err == nil {
			path = is
		}
		return path
	}
	rel, err := filepath.Rel(real(other), real(dir))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
