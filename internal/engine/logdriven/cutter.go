package logdriven

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"github.com/millrace/millrace/internal/keyed"
)

// A Cutter writes what has changed in the state of a location, at cuts. A cut is the state at one moment between two steps; it is
// written while steps go on. The output is a sequence of pieces, grouped in runs. State is read back from all pieces, the newest
// first. A run can be dropped when everything in it is also in a newer run.
//
// To keep the written data in proportion to the state, a cut also rewrites whole pages of the oldest runs while all runs together
// are more than twice as large as the live state. All cuts together rewrite at most twice as much as they have to write anyway.
type Cutter struct {
	executor *Executor
	parts    []*cutPart
	err      error // of an entry that could not be encoded

	next  int    // the part being written
	out   []byte // sections of the current piece
	ready []Piece

	first, last uint64 // the oldest run that is needed, and the run being written
	runs        map[uint64]*run
	limit       int // bytes of a run
	slack       int // bytes that may be kept beyond twice the live state
	credit      int // bytes that may be rewritten, as earned by what had to be written
}

// A Piece is a part of the output.
type Piece struct {
	Run  uint64 // increasing
	Data []byte
}

// A run is a group of pieces that are kept or dropped together.
type run struct {
	bytes int
	units int // heads and pages for which it is the oldest run that is needed
}

// A cutPart is a part, with where it was written.
type cutPart struct {
	*part
	marks   *keyed.Marks
	writer  entryWriter
	sum     [16]byte // of the written head
	headRun uint64
	pages   []uint64 // by page: the oldest run that is needed for it
	size    sizes
}

// sizes estimates the size of entries.
type sizes struct{ bytes, count int }

func (s *sizes) add(n int) {
	if s.bytes, s.count = s.bytes+n, s.count+1; s.count > 1<<20 { // older entries count less
		s.bytes, s.count = s.bytes/2, s.count/2
	}
}

// of returns the approximate size of n entries.
func (s *sizes) of(n int) int {
	if s.count == 0 {
		return 64 * n
	}
	return int(float64(n) * float64(s.bytes+2*s.count) / float64(s.count))
}

const (
	pieceBytes = 128 << 10 // size from which on a piece is complete
	wordBytes  = 64 << 10  // about how much is encoded between checks of the time
	leastRun   = 256 << 10
	mostRuns   = 256     // of the live state
	mostSlack  = 4 << 20 // may be kept in any case
	overhead   = 64      // approximately, of a piece
)

// Cutter returns a cutter for an executor of which nothing has been written. From now on the executor's operators record changes.
func (ex *Executor) Cutter() *Cutter {
	c := &Cutter{executor: ex, slack: mostSlack}
	c.Again()
	return c
}

// Slack bounds what is kept beyond twice the live state, for a log with little space. It is called before the first Begin.
func (c *Cutter) Slack(bytes int) {
	if bytes < c.slack {
		c.slack = bytes
	}
}

// Again starts over after an incomplete write: everything counts as changed and goes to a new run. Once that is written, no
// earlier run is needed.
func (c *Cutter) Again() {
	c.last++
	c.first, c.runs, c.limit = c.last, map[uint64]*run{c.last: {}}, leastRun
	was := c.parts
	c.parts, c.out, c.ready, c.err = nil, nil, nil, nil
	c.executor.cuts = true
	for i, p := range c.executor.parts() {
		x := &cutPart{part: p}
		if i < len(was) {
			x.size = was[i].size
		}
		if p.entries != nil {
			x.marks = p.entries.Mark(func(i uint32) { c.write(x, i) })
		}
		c.parts = append(c.parts, x)
	}
}

// Cutter returns a cutter that continues after what was loaded, with a new run. sizes are the bytes of each loaded run, by
// number.
func (r *Loader) Cutter(sizes map[uint64]int) *Cutter {
	c := r.executor.Cutter()
	if r.changed {
		for n := range sizes { // everything is written anew, and the first cut replaces what was loaded
			c.last = max(c.last, n+1)
		}
		c.first, c.runs = c.last, map[uint64]*run{c.last: {}}
		return c
	}
	c.runs = make(map[uint64]*run)
	for n, bytes := range sizes {
		c.runs[n] = &run{bytes: bytes}
		c.last = max(c.last, n+1)
	}
	c.runs[c.last] = &run{}
	c.first = c.last
	for n := range c.runs {
		c.first = min(c.first, n)
	}
	for i, p := range r.order {
		x := c.parts[i]
		x.sum, x.size = sumOf(p.head), p.size
		c.move(&x.headRun, p.headRun)
		if x.marks == nil {
			continue
		}
		x.marks.Unchanged()
		numbers, _ := x.entries.Count()
		for page, read := range p.pages {
			if uint64(page)*keyed.PageLen < uint64(numbers) {
				x.reach(page)
				c.move(&x.pages[page], read.run)
			}
		}
	}
	return c
}

// move records that run to is the oldest one that is needed for a unit.
func (c *Cutter) move(unit *uint64, to uint64) {
	if r := c.runs[*unit]; r != nil {
		r.units--
	}
	if *unit = to; to != 0 {
		c.runs[to].units++
	}
}

func (x *cutPart) reach(page uint32) {
	if n := int(page) + 1 - len(x.pages); n > 0 {
		x.pages = append(x.pages, make([]uint64, n)...)
	}
}

// Begin begins a cut between two steps, after the previous cut has been written. It rewrites at most space bytes of unchanged
// data. It takes time linear in the heads and the changed pages.
func (c *Cutter) Begin(space int) error {
	c.next = 0
	live := c.Live()
	c.limit = max(min(leastRun, c.slack/4), live/mostRuns)
	changed := 0
	for _, x := range c.parts {
		if err := c.head(x, false); err != nil {
			return err
		}
		if x.entries == nil {
			continue
		}
		x.entries.Freeze()
		numbers, _ := x.entries.Count()
		c.shrink(x, numbers)
		x.marks.Frozen(func(page uint32, n int) {
			changed += x.size.of(n)
			if uint64(page)*keyed.PageLen >= uint64(numbers) {
				return
			}
			x.reach(page)
			if x.pages[page] == 0 || n >= inPage(page, numbers) {
				c.move(&x.pages[page], c.last)
			}
		})
	}
	c.credit += 2 * (changed + len(c.out))
	c.clean(live, space)
	return c.err
}

// Live returns approximately how many bytes the current entries take in pieces.
func (c *Cutter) Live() (live int) {
	for _, x := range c.parts {
		if x.entries != nil {
			numbers, n := x.entries.Count()
			live += x.size.of(n) + 4*(int(numbers)-n)
		}
	}
	return live
}

// inPage returns how many of the numbers lie in a page.
func inPage(page, numbers uint32) int {
	return int(min(uint64(numbers)-uint64(page)*keyed.PageLen, keyed.PageLen))
}

// shrink drops the pages beyond the last number.
func (c *Cutter) shrink(x *cutPart, numbers uint32) {
	for n := len(x.pages); n > 0 && uint64(n-1)*keyed.PageLen >= uint64(numbers); n-- {
		c.move(&x.pages[n-1], 0)
		x.pages = x.pages[:n-1]
	}
}

// head writes the head of a part if it has changed, or if again says so.
func (c *Cutter) head(x *cutPart, again bool) error {
	if u, ok := x.state.(interface{ Unchanged() bool }); ok && !again && x.headRun != 0 && u.Unchanged() {
		return nil
	}
	data, err := x.state.Save(nil, c.executor.loc.Graph.Settings.Codec)
	if err != nil {
		return fmt.Errorf("%s: %w", c.executor.describe(x.partID), err)
	}
	if sum := sumOf(data); again || x.headRun == 0 || sum != x.sum {
		x.sum = sum
		c.section(x.partID, sectionHead, data)
		c.move(&x.headRun, c.last)
	}
	return nil
}

func sumOf(data []byte) [16]byte {
	sum := sha256.Sum256(data)
	return [16]byte(sum[:16])
}

// clean schedules whole pages of the oldest runs for rewriting, as far as there is credit and space.
func (c *Cutter) clean(live, space int) {
	total := 0
	for _, r := range c.runs {
		total += r.bytes
	}
	most := func() int { return min(c.credit, space) }
	spend := func(bytes int) { c.credit, space = c.credit-bytes, space-bytes }
	for front := c.first; front < c.last && total > 2*live+c.slack; front++ {
		r := c.runs[front]
		for i := 0; r != nil && r.units > 0 && i < len(c.parts); i++ {
			x := c.parts[i]
			if x.headRun == front {
				if most() <= 0 {
					return
				}
				before := len(c.out)
				if c.err = c.head(x, true); c.err != nil {
					return
				}
				spend(len(c.out) - before)
			}
			if x.entries == nil {
				continue
			}
			numbers, _ := x.entries.Count()
			for page := range x.pages {
				if x.pages[page] != front {
					continue
				}
				size := x.size.of(inPage(uint32(page), numbers))
				if size > most() {
					return
				}
				x.marks.FreezePage(uint32(page), numbers)
				spend(size)
				c.move(&x.pages[page], c.last)
			}
		}
		if r != nil && r.units == 0 {
			total -= r.bytes
		}
	}
	if total <= 2*live+c.slack {
		c.credit = 0
	}
}

// write writes entry i of a part, as it was at the cut.
func (c *Cutter) write(x *cutPart, i uint32) {
	before := len(x.writer.buf)
	there, err := x.writer.add(x.entries, c.executor.loc.Graph.Settings.Codec, i)
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("%s: %w", c.executor.describe(x.partID), err)
	}
	if there {
		x.size.add(len(x.writer.buf) - before)
	}
	if len(x.writer.buf) >= pieceBytes {
		c.section(x.partID, sectionEntries, x.writer.take())
	}
}

// section adds a section to the current piece.
func (c *Cutter) section(id partID, kind byte, body []byte) {
	c.out = appendSection(c.out, id, kind, body)
	if len(c.out) >= pieceBytes {
		c.piece()
	}
}

// piece completes the current piece.
func (c *Cutter) piece() {
	if len(c.out) == 0 {
		return
	}
	r := c.runs[c.last]
	c.ready = append(c.ready, Piece{c.last, bytes.Clone(c.out)})
	r.bytes += len(c.out) + overhead
	if c.out = c.out[:0]; cap(c.out) > 4*pieceBytes {
		c.out = nil
	}
	if r.bytes >= c.limit {
		c.last++
		c.runs[c.last] = &run{}
	}
}

// Write continues writing the current cut until enough returns true, and reports whether all of it is written. After an error,
// only [Cutter.Again] may be called.
func (c *Cutter) Write(enough func() bool) (done bool, err error) {
	for c.err == nil && c.next < len(c.parts) {
		x := c.parts[c.next]
		if x.marks == nil || x.marks.Taken() {
			c.next++
			continue
		}
		first, set := x.marks.Take(max(wordBytes/x.size.of(1), 1))
		keyed.Each(first, set, func(i uint32) { c.write(x, i) })
		if enough() {
			return false, c.err
		}
	}
	if c.err != nil {
		return false, c.err
	}
	for _, x := range c.parts {
		if x.entries != nil {
			x.entries.Thaw()
		}
		if len(x.writer.buf) > 0 {
			c.section(x.partID, sectionEntries, x.writer.take())
		}
	}
	c.piece()
	return true, nil
}

// Ready returns how many pieces were written since the last call of Pieces.
func (c *Cutter) Ready() int { return len(c.ready) }

// Pieces returns what was written since the last call.
func (c *Cutter) Pieces() []Piece {
	all := c.ready
	c.ready = nil
	return all
}

// Oldest returns the oldest run that is needed once the cut has been written, and drops the runs before it.
func (c *Cutter) Oldest() uint64 {
	for ; c.first < c.last && (c.runs[c.first] == nil || c.runs[c.first].units == 0); c.first++ {
		delete(c.runs, c.first)
	}
	return c.first
}
