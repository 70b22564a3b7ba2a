package logdriven

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// A Loader loads state that was written at cuts into an executor that has made no step. It gets the pieces from the newest to the
// oldest, and takes from each what it does not have yet.
type Loader struct {
	executor *Executor
	changed  bool
	order    []*loading
	parts    map[partID]*loading
}

// A loading is what was read of a part so far.
type loading struct {
	*part
	codec   codec.Codec
	head    []byte
	headRun uint64
	some    bool // there is a head
	pages   map[uint32]*loadingPage
	at      uint32
	last    *loadingPage
	size    sizes
}

// A loadingPage records which entries of a page were read, and the oldest run that contains one of them.
type loadingPage struct {
	seen [keyed.PageLen / 64]uint64
	run  uint64
}

// Loader returns a loader of an executor that has made no step. It runs what depends on constants, and discards the results.
// origin is that of the history; see [Executor.Begin]. changed says that another program has made the state: the state of
// operators that are gone is ignored, and new operators begin with nothing.
func (ex *Executor) Loader(origin int64, changed bool) (*Loader, error) {
	if _, err := ex.Begin(origin); err != nil {
		return nil, err
	}
	r := &Loader{executor: ex, changed: changed, parts: make(map[partID]*loading)}
	for _, p := range ex.parts() {
		x := &loading{part: p, codec: ex.loc.Graph.Settings.Codec, pages: make(map[uint32]*loadingPage)}
		if op, ok := ex.operatorOf(p.owner); ok && op >= 0 {
			x.codec = ex.codecOf(op)
		}
		r.order = append(r.order, x)
		r.parts[p.partID] = x
	}
	return r, nil
}

// Piece reads a piece of a run.
func (r *Loader) Piece(run uint64, data []byte) error {
	all, err := sections(data)
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(all) {
		if _, ok := r.executor.operatorOf(s.owner); !ok && r.changed {
			continue
		}
		p := r.parts[s.partID]
		if p == nil || s.kind == sectionEntries && p.entries == nil {
			return fmt.Errorf("dataflow: the saved state has %s, which remembers no such thing", r.executor.describe(s.partID))
		}
		if s.kind == sectionEntries {
			err = p.read(run, s.body, p.codec)
		} else if !p.some {
			p.head, p.headRun, p.some = bytes.Clone(s.body), run, true
		}
		if err != nil {
			return fmt.Errorf("dataflow: the saved state of %s: %w", r.executor.describe(s.partID), err)
		}
	}
	return nil
}

// read reads entries, except those that were read before, which are newer.
func (p *loading) read(run uint64, body []byte, c codec.Codec) error {
	d := &codec.Decoder{Data: body}
	entry := &codec.Decoder{}
	for number := int64(0); len(d.Data) > 0; {
		number += d.Int()
		entry.Data = d.Bytes()
		if d.Err != nil || number < 0 || number >= 1<<32-1 {
			return errSection
		}
		i := uint32(number)
		if p.last == nil || p.at != i/keyed.PageLen {
			p.at = i / keyed.PageLen
			if p.last = p.pages[p.at]; p.last == nil {
				p.last = new(loadingPage)
				p.pages[p.at] = p.last
			}
		}
		w, bit := &p.last.seen[i%keyed.PageLen/64], uint64(1)<<(i%64)
		if *w&bit != 0 {
			continue
		}
		*w |= bit
		p.last.run = run
		if !free(entry.Data) {
			p.size.add(len(entry.Data))
		}
		if p.entries.LoadEntry(entry, c, i); entry.Err == nil && len(entry.Data) > 0 {
			entry.Err = fmt.Errorf("%d bytes too many", len(entry.Data))
		}
		if entry.Err != nil {
			return entry.Err
		}
	}
	return nil
}

// End completes the loading, after all pieces were read.
func (r *Loader) End() error {
	for _, p := range r.order {
		if !p.some {
			if !r.changed {
				return fmt.Errorf("dataflow: the saved state has nothing of %s", r.executor.describe(p.partID))
			}
			continue // it begins with nothing
		}
		d := &codec.Decoder{Data: p.head}
		if p.state.Load(d, p.codec); d.Err == nil && len(d.Data) > 0 {
			d.Err = fmt.Errorf("%d bytes too many", len(d.Data))
		}
		if d.Err != nil {
			return fmt.Errorf("dataflow: the saved state of %s: %w", r.executor.describe(p.partID), d.Err)
		}
	}
	for _, p := range r.order { // keep the numbers of what was numbered for the pieces
		if p.entries != nil {
			p.entries.Mark(nil)
		}
	}
	r.executor.identify()
	return nil
}
