package durable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// The formats of what is kept. The first byte is the version; a reader refuses one that
// it does not know.
//
// What earlier versions kept looks the same, and is refused all the same: made again, their
// steps could give something else (until version 1, timers fired operator by operator;
// until version 2, a slice could run between two rounds of a cycle), the numbers of sends in
// their snapshots are those of sources, not of inputs, keys and senders, and until step
// version 3 and snapshot version 2 nothing has a checksum; until step version 4 and snapshot
// version 4 operators were known by their place in the program, until step version 5 a step
// does not say which entries were taken, and until snapshot version 5 nothing says how old a
// source is. Until snapshot version 6 the state is in no sections, and until version 7 in no
// pieces; see pieces.go. Until step version 6 and snapshot version 8 nothing says of what is for
// another location that it is for each of its partitions. Until step version 7 and snapshot
// version 9 nothing says which version of the program made a step, and no step has a digest.
const (
	stepVersion     = 8
	snapshotVersion = 10
)

// wrongVersion says that this program cannot read a step or a snapshot of version v.
func wrongVersion(what string, v, known byte) error {
	if v > known {
		return fmt.Errorf("durable: a %s is of version %d, and this program knows %d: it was kept by a later program; start that one", what, v, known)
	}
	return fmt.Errorf("durable: a %s is of version %d, and this program knows %d: a history that was begun by an earlier program cannot be gone on with; let that program finish it, or begin a new history", what, v, known)
}

// A place is where the history of a partition stands after a step.
type place struct {
	link   link   // to the step
	intake        // what was taken up to here
	last   uint64 // position of the last record that is known to have been acknowledged
	now    int64  // nanoseconds since the origin of the clock
}

func (p *place) encode(dst []byte) []byte {
	dst = append(dst, p.link[:]...)
	dst = p.intake.encode(dst)
	dst = binary.AppendUvarint(dst, p.last)
	return binary.AppendUvarint(dst, uint64(p.now))
}

func (p *place) decode(r *reader) {
	copy(p.link[:], r.skip(len(p.link)))
	p.intake.decode(r)
	p.last = r.uint()
	p.now = int64(r.uint())
}

// A step is what one commit says: which records were taken, at what time, and what
// came of it. The link of its place is to the step before, since it cannot have one to itself.
type step struct {
	clock int64  // its origin, in nanoseconds of Unix time; in the first step of a history
	begin bool   // the first step of a history
	shape string // of the program, in the first step and in one that changes it

	changed bool // takes nothing: it says that another program goes on

	newVersion bool   // the step before was made by another version of the program
	version    string // of the program, for people, if newVersion

	fence uint64 // of the step before
	place
	logdriven.Emission
	changes []byte // the digest of what it changed, see [logdriven.Cutter.Digest]; nil for most steps

	size Lag // of the records taken; not kept
}

// What the flags of a step say.
const (
	flagBegin = 1 << iota
	flagChanged
	flagDigest
	flagVersion

	flagsShape = flagBegin | flagChanged
)

// hasShape reports whether an encoded step says which program makes the next ones.
func hasShape(data []byte) bool { return len(data) > frameSize && data[frameSize]&flagsShape != 0 }

func (s *step) encode(of origin) []byte {
	var flags byte
	if s.begin {
		flags |= flagBegin
	}
	if s.changed {
		flags |= flagChanged
	}
	if s.changes != nil {
		flags |= flagDigest
	}
	if s.newVersion {
		flags |= flagVersion
	}
	dst := append(of.begin(make([]byte, 0, 128+len(s.Outputs)), stepVersion), flags)
	if s.begin {
		dst = binary.AppendVarint(dst, s.clock)
	}
	if flags&flagsShape != 0 {
		dst = appendString(dst, s.shape)
	}
	if s.newVersion {
		dst = appendString(dst, s.version)
	}
	dst = binary.AppendUvarint(dst, s.fence)
	dst = s.place.encode(dst)
	dst = binary.AppendUvarint(dst, uint64(len(s.Refused)))
	for _, nonce := range s.Refused {
		dst = binary.AppendUvarint(dst, nonce)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Parked)))
	for _, x := range s.Parked {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, x.Nonce), x.Letter)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Skipped)))
	for _, x := range s.Skipped {
		dst = binary.AppendUvarint(dst, uint64(x.Index))
		dst = appendString(dst, x.Operator)
		dst = appendString(dst, x.Reason)
		dst = append(dst, codec.Flag(x.Park))
	}
	if s.changes != nil {
		dst = codec.AppendBytes(dst, s.changes)
	}
	return of.seal(append(dst, s.Outputs...))
}

func decodeStep(of origin, data []byte) (s step, err error) {
	in, err := of.open("step", stepVersion, data)
	if err != nil {
		return s, err
	}
	r := reader{data: in}
	flags := r.byte()
	s.begin, s.changed = flags&flagBegin != 0, flags&flagChanged != 0
	if s.begin {
		s.clock = r.int()
	}
	if flags&flagsShape != 0 {
		s.shape = r.string()
	}
	if s.newVersion = flags&flagVersion != 0; s.newVersion {
		s.version = r.string()
	}
	s.fence = r.uint()
	s.place.decode(&r)
	for range r.count() {
		s.Refused = append(s.Refused, r.uint())
	}
	for range r.count() {
		s.Parked = append(s.Parked, logdriven.Parked{Nonce: r.uint(), Letter: r.uint()})
	}
	for range r.count() {
		s.Skipped = append(s.Skipped, logdriven.Skip{Index: int(r.uint()), Operator: r.string(), Reason: r.string(), Park: r.byte() == 1})
	}
	if flags&flagDigest != 0 {
		s.changes = bytes.Clone(r.skip(int(r.count())))
	}
	s.Outputs = r.data
	return s, r.err("step")
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// A reader reads what was appended. After damage everything is zero.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) err(what string) error {
	if r.bad {
		return fmt.Errorf("durable: a %s is damaged", what)
	}
	return nil
}

func (r *reader) skip(n int) []byte {
	if n <= 0 || n > len(r.data) {
		r.bad, r.data = true, nil
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.skip(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint() uint64 {
	x, n := binary.Uvarint(r.data)
	if r.skip(n) == nil {
		return 0
	}
	return x
}

func (r *reader) int() int64 {
	x, n := binary.Varint(r.data)
	if r.skip(n) == nil {
		return 0
	}
	return x
}

func (r *reader) string() string {
	n := r.uint()
	if n == 0 {
		return ""
	}
	if n > uint64(len(r.data)) {
		r.bad, r.data = true, nil
		return ""
	}
	return string(slices.Clone(r.skip(int(n))))
}

func (r *reader) count() uint64 {
	n := r.uint()
	if n > uint64(len(r.data)) {
		r.bad, r.data = true, nil
		return 0
	}
	return n
}
