package durable

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine/logdriven"
)

// The formats of what is kept. The first byte is the version; a reader refuses one that
// it does not know.
//
// What earlier versions kept looks the same, and is refused all the same: made again, their
// steps could give something else (until version 1, timers fired operator by operator;
// until version 2, a slice could run between two rounds of a cycle), and the numbers of
// sends in their snapshots are those of sources, not of inputs, keys and senders.
const (
	stepVersion     = 3
	snapshotVersion = 2
)

// wrongVersion says that this program cannot read a step or a snapshot of version v.
func wrongVersion(what string, v, known byte) error {
	if v > known {
		return fmt.Errorf("durable: a %s is of version %d, and this program knows %d: it was kept by a later program; start that one", what, v, known)
	}
	return fmt.Errorf("durable: a %s is of version %d, and this program knows %d: a history that was begun by an earlier program cannot be gone on with; let that program finish it, or begin a new history", what, v, known)
}

// A step is what one commit says: which records were taken, at what time, and what
// came of it.
type step struct {
	origin int64  // of the clock, in nanoseconds of Unix time
	begin  bool   // the first step of a history
	shape  string // of the program, in the first step
	taken  uint64 // position of the last message taken
	now    int64  // nanoseconds since origin
	logdriven.Emission
}

func (s *step) encode() []byte {
	var flags byte
	if s.begin {
		flags = 1
	}
	dst := append(make([]byte, 0, 64+len(s.Outputs)), stepVersion, flags)
	if s.begin {
		dst = binary.AppendVarint(dst, s.origin)
		dst = appendString(dst, s.shape)
	}
	dst = binary.AppendUvarint(dst, s.taken)
	dst = binary.AppendUvarint(dst, uint64(s.now))
	dst = binary.AppendUvarint(dst, uint64(len(s.Refused)))
	for _, nonce := range s.Refused {
		dst = binary.AppendUvarint(dst, nonce)
	}
	return append(dst, s.Outputs...)
}

func decodeStep(data []byte) (s step, err error) {
	r := reader{data: data}
	if v := r.byte(); v != stepVersion {
		return s, wrongVersion("step", v, stepVersion)
	}
	if s.begin = r.byte()&1 != 0; s.begin {
		s.origin = r.int()
		s.shape = r.string()
	}
	s.taken = r.uint()
	s.now = int64(r.uint())
	for range r.count() {
		s.Refused = append(s.Refused, r.uint())
	}
	s.Outputs = r.data
	return s, r.err("step")
}

// A snapshot is the state between two steps.
type snapshot struct {
	shape  string
	origin int64
	taken  uint64
	now    int64
	refusals
	state []byte
}

func (s *snapshot) encode() []byte {
	dst := append(make([]byte, 0, 64+len(s.shape)+len(s.state)), snapshotVersion)
	dst = appendString(dst, s.shape)
	dst = binary.AppendVarint(dst, s.origin)
	dst = binary.AppendUvarint(dst, s.taken)
	dst = binary.AppendUvarint(dst, uint64(s.now))
	dst = s.refusals.encode(dst)
	return append(dst, s.state...)
}

func decodeSnapshot(data []byte) (s snapshot, err error) {
	r := reader{data: data}
	if v := r.byte(); v != snapshotVersion {
		return s, wrongVersion("snapshot", v, snapshotVersion)
	}
	s.shape = r.string()
	s.origin = r.int()
	s.taken = r.uint()
	s.now = int64(r.uint())
	s.refusals.decode(&r)
	s.state = r.data
	return s, r.err("snapshot")
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
