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

// A witnessState is the state of what a process saves in the witness.
type witnessState struct {
	mu       sync.Mutex
	latest   []sighting // by partition: the latest step that this process has committed or found
	saved    []sighting // by partition: the last step that was saved, or did not need to be
	err      error      // why the witness does not have all of them
	loggedAt time.Time  // when that was last logged
	noted    bool       // it was logged that the witness knew nothing
}

// checkWitness returns an error if the witness of the options is in an unsuitable place.
func (c *core) checkWitness() error {
	if w, ok := c.opts.Witness.(*patientWitness); ok {
		if dir, ok := w.Witness.(witnessDir); ok {
			return dir.ready(c.opts.Log)
		}
	}
	return nil
}

// beginWitness begins to save steps in the witness, if there is one.
func (c *core) beginWitness() {
	if c.opts.Witness == nil || c.opts.Client {
		return
	}
	n := c.log.Partitions()
	c.witnessing.latest, c.witnessing.saved = make([]sighting, n), make([]sighting, n)
	c.tasks.Go(c.notifyWitness)
}

// sighted returns what the witness knows of the partition. Call it before reading the history. A witness that
// does not answer stops nothing.
func (o *owner) sighted(ctx context.Context) (*sighting, error) {
	if o.opts.Witness == nil || o.readOnly {
		return nil, nil
	}
	s, err := loadSighting(ctx, o.opts.Witness, o.log.Identity(), o.partition)
	if err == nil || ctx.Err() != nil || errors.As(err, new(*witnessError)) {
		return s, err
	}
	o.witnessing.failed(o.core, fmt.Errorf("durable: a start of partition %d was not compared with the witness: %w", o.partition, err))
	return &sighting{}, nil
}

// compare returns an error if a history is behind what the witness knows.
func (o *owner) compare(ctx context.Context, seen *sighting, h *journal.History) error {
	if why := seen.misfit(ctx, o.log, o.of, h); why != "" {
		return &olderStepsError{why: why}
	}
	if seen == nil && o.opts.Witness != nil && h.Fence != 0 && !o.readOnly {
		o.witnessing.mu.Lock()
		defer o.witnessing.mu.Unlock()
		if !o.witnessing.noted {
			o.witnessing.noted = true
			o.opts.Logger.Warn("the witness knows nothing of a partition, and is told from now on: is it the right one?", "partition", o.partition)
		}
	}
	return nil
}

// witness notes the last step, to be saved in the witness.
func (o *owner) witness() {
	if o.opts.Witness == nil || o.fence == 0 {
		return
	}
	s := sighting{o.log.Identity(), o.partition, o.fence, o.last.link, o.last.clock + o.last.now}
	o.witnessing.mu.Lock()
	defer o.witnessing.mu.Unlock()
	o.witnessing.latest[o.partition] = s
}

// notifyWitness saves steps in the witness until the flow has ended.
func (c *core) notifyWitness() {
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

// saveSightings saves the steps that the witness does not have.
func (c *core) saveSightings(ctx context.Context) {
	c.witnessing.mu.Lock()
	latest := slices.Clone(c.witnessing.latest)
	c.witnessing.mu.Unlock()
	for p, s := range latest {
		if s == c.witnessing.saved[p] { // saved belongs to this goroutine
			continue
		}
		if err := c.saveSighting(ctx, &s); err != nil {
			if ctx.Err() == nil {
				c.witnessing.failed(c, fmt.Errorf("durable: the witness was not told of %v of partition %d: %w", &s, p, err))
			}
			return
		}
		c.witnessing.saved[p] = s
	}
	c.witnessing.mu.Lock()
	c.witnessing.err = nil
	c.witnessing.mu.Unlock()
}

// saveSighting saves a step in the witness, unless that has a later one: an owner that was replaced may come
// late. If two owners save at the same time, the witness may go back until the next step is saved; what it has
// is a step of the history all the same.
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

// failed notes that the witness fails, and logs it from time to time.
func (w *witnessState) failed(c *core, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	if now := time.Now(); now.Sub(w.loggedAt) >= witnessAgain {
		w.loggedAt = now
		c.opts.Logger.Error("the witness fails, and the flow goes on", "error", err)
	}
}

// condition returns why the witness does not have all steps, or was not consulted at a start; or nil.
func (w *witnessState) condition() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// inside reports whether dir is the folder other or is in it.
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
