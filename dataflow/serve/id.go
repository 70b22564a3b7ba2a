package serve

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"net/http"
	"sync/atomic"
	"time"
)

// A RequestID is the key of a request: what its client named it, or what it was given.
type RequestID string

// maxID is how long the id that a client chooses may be.
const maxID = 128

// An idSource makes ids that are unguessable and in order.
type idSource struct {
	start int64        // nanoseconds of time, as last
	last  atomic.Int64 // of the newest id
}

// ordered is an encoding that keeps the order of what it encodes.
var ordered = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// next returns an id of 29 characters: the time in nanoseconds, moved on where two
// would be equal, and 80 bits that are random.
func (s *idSource) next() RequestID {
	var b [18]byte
	binary.BigEndian.PutUint64(b[:8], uint64(s.tick(time.Now().UnixNano())))
	rand.Read(b[8:])
	return RequestID(ordered.EncodeToString(b[:]))
}

// tick returns now, or one more than it returned last if that is not less.
func (s *idSource) tick(now int64) int64 {
	for {
		last := s.last.Load()
		t := max(now, last+1)
		if s.last.CompareAndSwap(last, t) {
			return t
		}
	}
}

// formed reports whether an id has the form of those that are made.
func formed(id RequestID) bool {
	b, err := ordered.DecodeString(string(id))
	return err == nil && len(b) == 18
}

// made reports whether an id has the form of those that were made since the start.
func (s *idSource) made(id RequestID) bool {
	b, err := ordered.DecodeString(string(id))
	if err != nil || len(b) != 18 {
		return false
	}
	t := int64(binary.BigEndian.Uint64(b))
	return s.start <= t && t <= s.last.Load()
}

// named returns the id that a client gave its request, or "" if it gave none.
func named(h http.Header, header string) (RequestID, error) {
	values := h[header]
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", nil
	case len(values) > 1 || len(values[0]) > maxID:
		return "", errName
	}
	for _, c := range []byte(values[0]) {
		if c < ' ' || c > '~' {
			return "", errName
		}
	}
	return RequestID(values[0]), nil
}
