package logdriven

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"

	"github.com/millrace/millrace/internal/engine/codec"
)

// A digest covers what operators remember of what a step has changed, so that comparing a repeated step covers more than its
// outputs.
//
//	digest  sum, of 8 bytes | part*
//	part    hash of the head | how many entries are listed | (distance from the number before, hash)*
//
// The sum covers the encodings of all heads and of all changed entries. A hash has one byte, since it only tells which of them
// differs.
const (
	mostDigested = 1 << 16 // changed entries of a part that count; those with the lowest numbers
	mostListed   = 1 << 10 // entries of all parts that are listed
)

var digestTable = crc64.MakeTable(crc64.ECMA)

// A digester computes a digest.
type digester struct {
	sum  uint64
	buf  []byte // of one encoding
	left int    // how many more entries may be listed
}

// add adds the content of buf, and returns its hash.
func (d *digester) add() byte {
	x := crc64.Checksum(d.buf, digestTable)
	d.sum = d.sum*0x9e3779b97f4a7c15 + x
	return byte(x)
}

// Note starts listing what the next step changes, for [Cutter.Digest].
func (c *Cutter) Note() {
	for _, x := range c.parts {
		if x.ofOperator() && x.marks != nil {
			x.marks.Note()
		}
	}
}

// ofOperator reports whether a part belongs in a digest. What the executor keeps itself follows from the records that it accepts.
func (x *cutPart) ofOperator() bool { return x.owner != ownParts }

// Digest appends the digest of the step that was made since [Cutter.Note]. No cut may be under way: a table that was emptied
// since the cut began would show its old content. It takes time linear in the number of operators and changed entries.
func (c *Cutter) Digest(dst []byte) ([]byte, error) {
	at, d := len(dst), digester{left: mostListed}
	dst = append(dst, make([]byte, 8)...)
	for _, x := range c.parts {
		if !x.ofOperator() {
			continue
		}
		var err error
		if dst, err = x.digest(dst, &d, c.executor.loc.Graph.Settings.Codec); err != nil {
			return dst[:at], fmt.Errorf("%s: %w", c.executor.describe(x.partID), err)
		}
	}
	binary.LittleEndian.PutUint64(dst[at:], d.sum)
	return dst, nil
}

// digest appends the digest of a part.
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
	for len(changed) > 0 && changed[len(changed)-1] >= numbers { // numbers that no longer exist
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

// Differs returns the first operator for which two digests differ, with its place, and the key for which they do, for people.
// They are empty if the digests do not tell. It is called after the step of the digest is, with the same program, and before the
// next step.
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
			index, _ := c.executor.operatorOf(x.owner)
			return c.executor.loc.Ops[index].String(), key
		}
	}
	return "", ""
}

// firstOf reads the entries that two digests list for a part, and returns the number of the first entry that differs or that only
// one of them lists.
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

// A digested is an entry in a digest.
type digested struct {
	number uint32
	hash   byte
}

// listed reads the entries that a digest lists for a part.
func listed(d *codec.Decoder) (all []digested) {
	number := uint32(0)
	for range d.Count() {
		number += uint32(d.Uint())
		all = append(all, digested{number, d.Byte()})
	}
	return all
}
