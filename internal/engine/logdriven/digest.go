package logdriven

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"

	"github.com/millrace/millrace/internal/engine/codec"
)

// A digest says what operators remember of what a step has changed, so that a step that is made
// again is compared by more than by its outputs. Source: store study 7.
//
//	digest  sum, of 8 bytes | part*
//	part    hash of the head | how many entries are listed | (distance from the number before, hash)*
//
// The sum is over the encodings of all heads and of all entries that have changed. A hash has
// one byte: it only tells which of them differs.
const (
	mostDigested = 1 << 16 // entries of a part that count; those with the lowest numbers
	mostListed   = 1 << 10 // entries of all parts that are listed
)

var digestTable = crc64.MakeTable(crc64.ECMA)

// A digester makes a digest.
type digester struct {
	sum  uint64
	buf  []byte // of one encoding
	left int    // entries that may be listed
}

// add adds what is in buf, and returns its hash.
func (d *digester) add() byte {
	x := crc64.Checksum(d.buf, digestTable)
	d.sum = d.sum*0x9e3779b97f4a7c15 + x
	return byte(x)
}

// Note has what the next step changes listed, for [Cutter.Digest].
func (c *Cutter) Note() {
	for _, x := range c.parts {
		if x.ofOperator() && x.marks != nil {
			x.marks.Note()
		}
	}
}

// ofOperator reports whether a part is in a digest. What the executor keeps itself follows from
// the records that it accepts.
func (x *cutPart) ofOperator() bool { return x.owner != ownParts }

// Digest appends the digest of the step that was made since [Cutter.Note]. No cut is under way: a table
// that was emptied since it began would show what it had. It takes time for each operator and
// for each entry that has changed.
func (c *Cutter) Digest(dst []byte) ([]byte, error) {
	at, d := len(dst), digester{left: mostListed}
	dst = append(dst, make([]byte, 8)...)
	for _, x := range c.parts {
		if !x.ofOperator() {
			continue
		}
		var err error
		if dst, err = x.digest(dst, &d, c.l.loc.Graph.Settings.Codec); err != nil {
			return dst[:at], fmt.Errorf("%s: %w", c.l.describe(x.partID), err)
		}
	}
	binary.LittleEndian.PutUint64(dst[at:], d.sum)
	return dst, nil
}

// digest appends what a digest says of a part.
func (x *cutPart) digest(dst []byte, d *digester, with codec.Codec) (_ []byte, err error) {
	if d.buf, err = x.state.Save(d.buf[:0], with); err != nil {
		return dst, err
	}
	dst = append(dst, d.add())
	if x.marks == nil {
		return append(dst, 0), nil
	}
	changed := x.marks.Noted()
	numbers, _ := x.entries.Count()
	for len(changed) > 0 && changed[len(changed)-1] >= numbers { // they are gone
		changed = changed[:len(changed)-1]
	}
	changed = changed[:min(len(changed), mostDigested)]
	lists := min(len(changed), d.left)
	d.left -= lists
	dst = binary.AppendUvarint(dst, uint64(lists))
	last := uint32(0)
	for n, i := range changed {
		if d.buf, err = x.entries.SaveEntry(d.buf[:0], with, i); err != nil {
			return dst, err
		}
		if hash := d.add(); n < lists {
			dst = append(binary.AppendUvarint(dst, uint64(i-last)), hash)
		}
		last = i
	}
	return dst, nil
}

// Differs returns the first operator for which a digest differs from another one, with its
// place, and the key for which it does, for people. They are empty where the digests do not tell.
// It is called after the step of the digest is, of the same program, and before the next one.
func (c *Cutter) Differs(is, was []byte) (operator, key string) {
	if len(is) < 8 || len(was) < 8 {
		return "", ""
	}
	a, b := &codec.Decoder{Data: is[8:]}, &codec.Decoder{Data: was[8:]}
	for _, x := range c.parts {
		if !x.ofOperator() {
			continue
		}
		same := a.Byte() == b.Byte()
		i, differs := firstOf(a, b)
		if a.Err != nil || b.Err != nil {
			return "", ""
		}
		if differs && x.entries != nil {
			if numbers, _ := x.entries.Count(); i < numbers {
				if k, ok := x.entries.EntryKey(i); ok {
					key = fmt.Sprint(k)
				}
			}
		}
		if differs || !same {
			index, _ := c.l.operatorOf(x.owner)
			return c.l.loc.Ops[index].String(), key
		}
	}
	return "", ""
}

// firstOf reads the entries that two digests list of a part, and returns the number of the first
// one that only one of them lists, or that differs.
func firstOf(a, b *codec.Decoder) (first uint32, differs bool) {
	left, right := listed(a), listed(b)
	for n := range max(len(left), len(right)) {
		switch {
		case n >= len(left):
			return right[n].number, true
		case n >= len(right):
			return left[n].number, true
		case left[n] != right[n]:
			return min(left[n].number, right[n].number), true
		}
	}
	return 0, false
}

// A digested is an entry that a digest lists.
type digested struct {
	number uint32
	hash   byte
}

// listed reads the entries that a digest lists of a part.
func listed(d *codec.Decoder) (all []digested) {
	number := uint32(0)
	for range d.Count() {
		number += uint32(d.Uint())
		all = append(all, digested{number, d.Byte()})
	}
	return all
}
