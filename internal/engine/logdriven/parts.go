package logdriven

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// The state of a location is written as sections. A section belongs to one part: it contains the part's head, or some of its
// entries.
//
//	section  owner | part | kind | length | content      all but kind are varints
//	head     what the part saves besides its entries
//	entries  (distance from the number before, length, the entry)*

const (
	sectionHead    = 'h'
	sectionEntries = 'e'
)

// A part is a state that is saved: one of an operator's states, or one of the executor's own.
type part struct {
	partID
	state   engine.State
	entries engine.Numbered // the state, if it has entries
}

// A partID identifies a part by its owner, and its number among the owner's parts.
type partID struct{ owner, number uint64 }

// ownParts is the owner of what the executor and its user keep themselves.
const ownParts = 0

// ownerOf returns the owner of the parts of the operator with a number in the history. It alone determines how the state of an
// operator is found again.
func ownerOf(number int32) uint64 { return uint64(number) + 1 }

// operatorOf returns the index of the operator that an owner stands for. It reports false if the program no longer has it.
func (ex *Executor) operatorOf(owner uint64) (int32, bool) {
	if owner == ownParts || owner > math.MaxInt32 {
		return -1, true // not the index of an operator
	}
	return ex.numbers.Op(int32(owner - 1))
}

// parts returns what is saved, in the order in which it is loaded.
func (ex *Executor) parts() (all []*part) {
	add := func(owner uint64, states []engine.State) {
		for i, s := range states {
			p := &part{partID: partID{owner, uint64(i)}, state: s}
			p.entries, _ = s.(engine.Numbered)
			all = append(all, p)
		}
	}
	add(ownParts, ex.own)
	for _, op := range ex.loc.Ops {
		if len(op.States) > 0 {
			number, _ := ex.numbers.Number(op.Index)
			add(ownerOf(number), op.States)
		}
	}
	return all
}

// describe names a part for people.
func (ex *Executor) describe(id partID) string {
	op, ok := ex.operatorOf(id.owner)
	if !ok || op < 0 || int(op) >= len(ex.loc.Ops) {
		return fmt.Sprintf("part %d of owner %d", id.number, id.owner)
	}
	return fmt.Sprintf("%s, part %d", ex.loc.Ops[op], id.number)
}

// Keep makes the executor save a state that its user keeps besides those of the operators. It is called before the first step,
// and before anything is loaded.
func (ex *Executor) Keep(s engine.State) { ex.own = append(ex.own, s) }

// Save appends the whole state of the location. It is called between two steps, while no cut is under way.
func (ex *Executor) Save(dst []byte) ([]byte, error) {
	err := ex.encode(math.MaxInt, func(id partID, kind byte, body []byte) { dst = appendSection(dst, id, kind, body) })
	return dst, err
}

// Size returns how many bytes the whole state takes in pieces, or a little more. It takes about as long as [Executor.Save], at the
// same time.
func (ex *Executor) Size() (bytes int, err error) {
	err = ex.encode(pieceBytes, func(_ partID, _ byte, body []byte) { bytes += len(body) + overhead })
	return bytes, err
}

// encode encodes the whole state in sections, those of entries of at most about the given number of bytes. The body of a section is
// valid during the call.
func (ex *Executor) encode(most int, section func(id partID, kind byte, body []byte)) (err error) {
	c := ex.loc.Graph.Settings.Codec
	var body []byte
	for _, p := range ex.parts() {
		if p.entries != nil {
			if !ex.cuts {
				p.entries.Mark(nil) // from then on it is known what is saved for a free number
			}
			w := entryWriter{}
			n, _ := p.entries.Count()
			for i := range n {
				if _, err = w.add(p.entries, c, i); err != nil {
					return fmt.Errorf("%s: %w", ex.describe(p.partID), err)
				}
				if len(w.buf) >= most {
					section(p.partID, sectionEntries, w.take())
				}
			}
			if len(w.buf) > 0 {
				section(p.partID, sectionEntries, w.buf)
			}
		}
		if body, err = p.state.Save(body[:0], c); err != nil {
			return fmt.Errorf("%s: %w", ex.describe(p.partID), err)
		}
		section(p.partID, sectionHead, body)
	}
	return nil
}

// Load is the inverse of [Executor.Save]; see [Executor.Loader].
func (ex *Executor) Load(data []byte, origin int64, changed bool) error {
	r, err := ex.Loader(origin, changed)
	if err == nil {
		err = r.Piece(0, data)
	}
	if err == nil {
		err = r.End()
	}
	return err
}

func appendSection(dst []byte, id partID, kind byte, body []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, id.owner), id.number)
	dst = binary.AppendUvarint(append(dst, kind), uint64(len(body)))
	return append(dst, body...)
}

// An entryWriter collects entries of one part.
type entryWriter struct {
	buf  []byte
	last uint32
}

// add appends entry i. It reports whether the number is in use, as opposed to free.
func (w *entryWriter) add(s engine.Numbered, c codec.Codec, i uint32) (there bool, err error) {
	begin := len(w.buf)
	w.buf = binary.AppendVarint(w.buf, int64(i)-int64(w.last))
	at := len(w.buf)
	w.buf = append(w.buf, 0)
	if w.buf, err = s.SaveEntry(w.buf, c, i); err != nil {
		w.buf = w.buf[:begin]
		return false, err
	}
	w.last = i
	n := len(w.buf) - at - 1
	if n < 1<<7 { // the usual case
		w.buf[at] = byte(n)
		return !free(w.buf[at+1:]), nil
	}
	var size [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(size[:], uint64(n))
	w.buf = append(w.buf, size[:k-1]...)
	copy(w.buf[at+k:], w.buf[at+1:at+1+n])
	copy(w.buf[at:], size[:k])
	return true, nil
}

// free reports whether an encoded entry says that its number is free, so that it does not count among the sizes of live entries.
// Tables, queues and timers encode that as 0, and tables also as 2 with the number below it. A live entry that looks the same is
// just as small.
func free(entry []byte) bool {
	return len(entry) <= 1+binary.MaxVarintLen32 && (len(entry) == 0 || entry[0] == 0 || entry[0] == 2)
}

// take returns what was collected, and starts over. There is a writer for each part of the state, so it keeps the memory only if
// that is not large.
func (w *entryWriter) take() []byte {
	b := w.buf
	if *w = (entryWriter{}); cap(b) <= 2*pieceBytes {
		w.buf = b[:0]
	}
	return b
}

// A section is a section read from a piece.
type section struct {
	partID
	kind byte
	body []byte
}

var errSection = errors.New("dataflow: the saved state cannot be read")

// sections returns the sections of a piece.
func sections(data []byte) (all []section, err error) {
	d := &codec.Decoder{Data: data}
	for len(d.Data) > 0 {
		s := section{partID: partID{d.Uint(), d.Uint()}, kind: d.Byte()}
		s.body = d.Bytes()
		if d.Err != nil || s.kind != sectionHead && s.kind != sectionEntries {
			return nil, errSection
		}
		all = append(all, s)
	}
	return all, nil
}
