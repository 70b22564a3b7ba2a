package durable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// The versions of the stored formats, in the first byte. A reader refuses a version that it does not know.
//
// Earlier versions are refused too, because their history cannot be continued:
//   - until version 1, timers fired operator by operator, so a replay could give a different result;
//   - until version 2, a slice could run between two rounds of a cycle, with the same consequence;
//   - in their snapshots, the numbers of sends are those of sources, not of inputs, keys and senders;
//   - until step version 3 and snapshot version 2, nothing has a checksum;
//   - until step version 4 and snapshot version 4, operators are known by their place in the program;
//   - until step version 5, a step does not say which entries were taken;
//   - until snapshot version 5, nothing says how old a source is;
//   - until snapshot version 6, the state has no sections, and until version 7 no pieces; see pieces.go;
//   - until step version 6 and snapshot version 8, an element for another location cannot say that it is for
//     each of its partitions;
//   - until step version 7 and snapshot version 9, nothing says which version of the program made a step, and
//     no step has a digest.
const (
	stepVersion     = 8
	snapshotVersion = 10
)

// wrongVersion returns the error for a step or a snapshot of a version v that this program cannot read.
func wrongVersion(what string, v, known byte) error {
	if v > known {
		return fmt.Errorf("durable: a %s is of version %d, and this program knows %d: it was kept by a later program; start that one", what, v, known)
	}
	return fmt.Errorf("durable: a %s is of version %d, and this program knows %d: a history that was begun by an earlier program cannot be gone on with; let that program finish it, or begin a new history", what, v, known)
}

// A place is where the history of a partition stands after a step.
type place struct {
	link          link   // to the step
	inputPosition        // of everything taken so far
	last          uint64 // position of the last record known to be acknowledged
	now           int64  // nanoseconds since the origin of the clock
}

func (p *place) encode(dst []byte) []byte {
	dst = append(dst, p.link[:]...)
	dst = p.inputPosition.encode(dst)
	dst = binary.AppendUvarint(dst, p.last)
	return binary.AppendUvarint(dst, uint64(p.now))
}

func (p *place) decode(r *reader) {
	copy(p.link[:], r.skip(len(p.link)))
	p.inputPosition.decode(r)
	p.last = r.uint()
	p.now = int64(r.uint())
}

// A step is the content of one commit: which records were taken, at what time, and what they gave. The link of
// its place is to the previous step, since a step cannot contain the link to itself.
type step struct {
	clock int64  // origin of the clock, in nanoseconds of Unix time; in the first step of a history
	begin bool   // the first step of a history
	shape string // of the program, in the first step and in one that changes it

	changed bool // takes nothing: it says that another program continues

	newVersion bool   // the previous step was made by another version of the program
	version    string // of the program, for people, if newVersion

	fence uint64 // of the previous step
	place
	logdriven.Emission
	changes []byte // the digest of its changes, see [logdriven.Cutter.Digest]; nil for most steps

	size Lag // of the records taken; not stored
}

// The flags of a step.
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

// A reader decodes what was appended. After damage every value is zero.
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
