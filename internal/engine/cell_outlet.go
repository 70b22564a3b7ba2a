package engine

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// A CellOutlet is an output of a value that changes. It keeps the latest version, so
// nobody waits for its readers.
type CellOutlet[T any] struct {
	endless
	noEntries
	site  *Site
	op    *Op
	cell  *Cell[T]
	dirty bool // changed in this step; held by the token

	mu      sync.Mutex
	value   T
	set     bool
	version uint64 // counts the steps that changed something
	ended   bool
	err     error
	readers waiterChain
}

// NewCellOutlet lets the value of c out.
func NewCellOutlet[T any](c *Cell[T], op *Op) *CellOutlet[T] {
	if c.region != nil && c.region.name != "" {
		Misuse(op.Name, "the value is inside %s: emit it first", c.region)
	}
	out := &CellOutlet[T]{site: c.site, op: op, cell: c}
	c.site.addOutput(op, out)
	checkType[T](op)
	c.changed(func() {
		if !out.dirty {
			out.dirty = true
			out.site.ports = append(out.site.ports, out)
		}
	})
	return out
}

func (out *CellOutlet[T]) operator() *Op { return out.op }

func (out *CellOutlet[T]) valued() bool { return true }

func (out *CellOutlet[T]) acknowledge(r *Record, _ Codec) (bool, error) {
	return false, fmt.Errorf("%w: it is of kind %d, for %s", errRecord, r.Kind, out.op)
}

func (out *CellOutlet[T]) release() {
	out.give()
	out.show()
}

func (out *CellOutlet[T]) show() bool {
	out.readers.signal()
	out.mu.Unlock()
	return false
}

func (out *CellOutlet[T]) wake() {} // show did it

func (out *CellOutlet[T]) forget() { out.dirty = false }

func (out *CellOutlet[T]) give() {
	out.dirty = false
	out.mu.Lock()
	out.value, out.set = out.cell.value, out.cell.set
	out.version++
}

func (out *CellOutlet[T]) end(err error) {
	out.mu.Lock()
	out.ended, out.err = true, err
	out.readers.signal()
	out.mu.Unlock()
}

// Latest returns the latest value that was released, if there is one.
func (out *CellOutlet[T]) Latest() (T, bool) {
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.value, out.set
}

// Next returns the latest version as soon as it is not the one seen: the value, if
// there is one, and the version's number, which is never 0. It returns io.EOF when the
// flow has ended with the version seen, and the flow's error if it failed.
func (out *CellOutlet[T]) Next(ctx context.Context, seen uint64) (v T, ok bool, version uint64, err error) {
	out.mu.Lock()
	if out.version != seen {
		defer out.mu.Unlock()
		return out.value, out.set, out.version, nil
	}
	w := out.site.g.idle.get()
	out.site.enlist(w)
	for {
		if out.version != seen {
			v, ok, version, err = out.value, out.set, out.version, nil
			break
		}
		if err == nil && out.ended {
			if err = out.err; err == nil {
				err = io.EOF
			}
		}
		if err != nil {
			break
		}
		out.readers.add(w)
		out.mu.Unlock()
		err = out.site.pause(ctx, w)
		out.mu.Lock()
		out.readers.remove(w)
	}
	out.mu.Unlock()
	out.site.leave(w)
	out.site.g.idle.put(w)
	return v, ok, version, err
}
