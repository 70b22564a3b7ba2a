package serve

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"net/http"
	"sync/atomic"
	"time"
)

// A RequestID is the key of a request: the id that its client chose, or one that the
// router made.
type RequestID string

// maxID is the maximum length of an id that a client chooses.
const maxID = 128

// An idSource makes ids that are unguessable and in order.
type idSource struct {
	start int64        // time in nanoseconds, like last
	last  atomic.Int64 // time in the newest id
}

// ordered is an encoding that keeps the order of what it encodes.
var ordered = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// next returns an id of 29 characters: the time in nanoseconds, increased where two would
// be equal, and 80 random bits.
func (s *idSource) next() RequestID {
	var b [18]byte
	binary.BigEndian.PutUint64(b[:8], uint64(s.tick(time.Now().UnixNano())))
	rand.Read(b[8:])
	return RequestID(ordered.EncodeToString(b[:]))
}

// tick returns now, or the last result plus one if now is not larger.
func (s *idSource) tick(now int64) int64 {
	for {
		last := s.last.Load()
		t := max(now, last+1)
		if s.last.CompareAndSwap(last, t) {
			return t
		}
	}
}

// formed reports whether an id has the form of generated ids.
func formed(id RequestID) bool {
	b, err := ordered.DecodeString(string(id))
	return err == nil && len(b) == 18
}

// made reports whether an id has the form of one that was generated since the start.
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
