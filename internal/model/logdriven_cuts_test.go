package model

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A written is the output of the cuts of a location: pieces, and how many of them belong to
// complete cuts.
type written struct {
	cutter *logdriven.Cutter
	pieces []logdriven.Piece
	whole  int
	open   bool // a cut is under way
}

// load gives a new life what was written, and continues from there.
func (w *written) load(l *logdriven.Executor) error {
	r, err := l.Loader(origin, false)
	if err != nil {
		return err
	}
	runs := make(map[uint64]int)
	w.pieces = w.pieces[:w.whole]
	for _, p := range slices.Backward(w.pieces) {
		runs[p.Run] += len(p.Data)
		if err := r.Piece(p.Run, p.Data); err != nil {
			return err
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	w.cutter = r.Cutter(runs)
	w.cutter.Slack(256)
	return nil
}

// cuts makes the steps of a history again while the state is written at cuts, a part now and
// then. Sometimes a new life begins with what was written, at the step of the last complete cut.
// So a cut must write everything that changed since the previous cut, as it was at the cut,
// whatever happened since.
func (flow logDrivenFlow) cuts(rng *rand.Rand, steps []logDrivenStep, want []outcome) error {
	r, _, err := flow.begun()
	if err != nil {
		return err
	}
	defer func() { r.end() }()
	all := make([]*written, len(r.executors))
	for j, l := range r.executors {
		all[j] = &written{cutter: l.Cutter()}
		all[j].cutter.Slack(rng.IntN(1024)) // so that old pages are written again
	}
	digests := make(map[int][]byte) // of steps, by number
	cut, whole := -1, -1            // the steps after which the cut under way and the last complete cut began
	for i := 0; ; {
		if cut < 0 && rng.IntN(2) > 0 {
			cut = i
			for _, w := range all {
				if err := w.cutter.Begin(rng.IntN(4096)); err != nil {
					return err
				}
				w.open = true
			}
		}
		done := cut >= 0
		for _, w := range all {
			if w.open {
				few := rng.IntN(3)
				d, err := w.cutter.Write(func() bool { few--; return few < 0 })
				if err != nil {
					return err
				}
				w.open, done = !d, done && d
			}
			w.pieces = append(w.pieces, w.cutter.Pieces()...)
		}
		if done {
			cut, whole = -1, cut
			for _, w := range all {
				first := w.cutter.Oldest()
				w.pieces = slices.DeleteFunc(w.pieces, func(p logdriven.Piece) bool { return p.Run < first })
				w.whole = len(w.pieces)
			}
		}
		if cut < 0 && whole >= 0 && rng.IntN(2) == 0 {
			if r, err = flow.goneOn(r, all, want[whole]); err != nil {
				return fmt.Errorf("from the cut after step %d, written before step %d: %w", whole, i+1, err)
			}
			i = whole
		}
		if i == len(steps) {
			return nil
		}
		r.unsaved = cut >= 0
		cutter := all[steps[i].location].cutter
		if cut < 0 {
			cutter.Note()
		}
		got, err := r.step(steps[i])
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if cut < 0 {
			if err := sameDigest(cutter, digests, i); err != nil {
				return fmt.Errorf("step %d, with a cut after step %d: %w", i+1, whole, err)
			}
		}
		if r.unsaved {
			got.saved = want[i+1].saved
		}
		if err := got.differs(want[i+1]); err != nil {
			return fmt.Errorf("step %d at %v, with a cut after step %d: %w", i+1, time.Duration(steps[i].now), whole, err)
		}
		i++
	}
}

// sameDigest compares the digest of a step with that of an earlier life.
func sameDigest(cutter *logdriven.Cutter, digests map[int][]byte, step int) error {
	is, err := cutter.Digest(nil)
	if err != nil {
		return err
	}
	if was, ok := digests[step]; ok && !bytes.Equal(is, was) {
		operator, key := cutter.Differs(is, was)
		return fmt.Errorf("%s remembers something else than in an earlier life, key %q", operator, key)
	}
	digests[step] = is
	return nil
}

// goneOn ends a life and begins another with what was written.
func (flow logDrivenFlow) goneOn(r *logDrivenRun, all []*written, want outcome) (*logDrivenRun, error) {
	r.end()
	r, err := flow.run()
	if err != nil {
		return r, err
	}
	for j, l := range r.executors {
		if err := all[j].load(l); err != nil {
			return r, err
		}
	}
	r.seen = nil
	loaded := outcome{outputs: want.outputs, refused: want.refused, seen: want.seen}
	if err := r.between(&loaded); err != nil {
		return r, err
	}
	return r, loaded.differs(want)
}
