package state

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// A Queue saves elements that its owner holds in a slice until they have been delivered. They are numbered from the first one
// ever. An element is saved at a place that is reused after the element has gone. The number of places is the largest number
// of elements that ever waited, rounded up to a power of two.
type Queue[T any] struct {
	first *uint64 // the number of the first element held
	held  *[]T
	codec codec.Of[T]

	places uint64 // a power of two; an element's place is its number modulo places
	marks  *keyed.Marks
	early  func(uint32)
	loaded map[uint64]T
}

// fewPlaces is the least number of places of a queue.
const fewPlaces = 8

// NewQueue returns a Queue that saves the elements in held, the first of which has the number *first.
func NewQueue[T any](first *uint64, held *[]T, codec codec.Of[T]) *Queue[T] {
	return &Queue[T]{first: first, held: held, codec: codec}
}

// Came is called when n elements have come.
func (q *Queue[T]) Came(n int) {
	if q == nil || q.marks == nil {
		return
	}
	if uint64(len(*q.held)) > q.places {
		q.grow()
		return
	}
	for i := len(*q.held) - n; i < len(*q.held); i++ {
		q.marks.Change(q.place(*q.first + uint64(i)))
	}
}

// Go is called before the first n elements go.
func (q *Queue[T]) Go(n int) {
	if q == nil || q.marks == nil {
		return
	}
	for i := range n {
		q.marks.Keep(q.place(*q.first + uint64(i)))
	}
}

func (q *Queue[T]) place(number uint64) uint32 { return uint32(number & (q.places - 1)) }

// grow makes more places. The part of a cut that is still to be saved is at the old places, so it is saved now.
func (q *Queue[T]) grow() {
	for !q.marks.Taken() {
		first, set := q.marks.Take(64)
		keyed.Each(first, set, q.early)
	}
	q.enough()
	q.marks.ChangeAll(uint32(q.places))
}

func (q *Queue[T]) enough() {
	for q.places = max(q.places, fewPlaces); q.places < uint64(len(*q.held)); {
		q.places *= 2
	}
}

// Mark implements [engine.Numbered].
func (q *Queue[T]) Mark(early func(i uint32)) *keyed.Marks {
	q.enough()
	q.early, q.marks = early, keyed.NewMarks(uint32(q.places), early)
	return q.marks
}

// Freeze implements [engine.Numbered].
func (q *Queue[T]) Freeze() { q.marks.Freeze() }

// Thaw implements [engine.Numbered].
func (q *Queue[T]) Thaw() {}

// Count implements [engine.Numbered].
func (q *Queue[T]) Count() (uint32, int) { return uint32(q.places), len(*q.held) }

// SaveEntry implements [engine.Numbered].
func (q *Queue[T]) SaveEntry(dst []byte, c codec.Codec, i uint32) ([]byte, error) {
	n := (uint64(i) - *q.first) & (q.places - 1)
	if n >= uint64(len(*q.held)) {
		return append(dst, 0), nil
	}
	return q.codec.Save(binary.AppendUvarint(dst, *q.first+n+1), c, &(*q.held)[n])
}

// EntryKey implements [engine.Numbered]. Elements have no keys.
func (q *Queue[T]) EntryKey(uint32) (any, bool) { return nil, false }

// LoadEntry implements [engine.Numbered].
func (q *Queue[T]) LoadEntry(d *codec.Decoder, c codec.Codec, _ uint32) {
	if q.loaded == nil {
		q.loaded = make(map[uint64]T)
	}
	if n := d.Uint(); n > 0 {
		var x T
		q.codec.Load(d, c, &x)
		q.loaded[n-1] = x
	}
}

// Save implements [engine.State].
func (q *Queue[T]) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	dst = binary.AppendUvarint(dst, *q.first)
	dst = binary.AppendUvarint(dst, uint64(len(*q.held)))
	return binary.AppendUvarint(dst, q.places), nil
}

// Load implements [engine.State].
func (q *Queue[T]) Load(d *codec.Decoder, _ codec.Codec) {
	first, n, places := d.Uint(), d.Uint(), d.Uint()
	loaded := q.loaded
	if q.loaded = nil; d.Err != nil || n > uint64(len(loaded)) || places&(places-1) != 0 || places < n {
		d.Fail()
		return
	}
	var held []T
	for i := range n {
		x, there := loaded[first+i]
		if !there {
			d.Fail()
			return
		}
		held = append(held, x)
	}
	*q.first, *q.held, q.places = first, held, places
}
