package durable

import "encoding/binary"

// A snapshot is the state between two steps.
type snapshot struct {
	shape   string
	version string // of the program that made the step, for people
	clock   int64  // origin of the clock, in nanoseconds of Unix time
	fence   uint64 // of the step
	place
	refusals
	diverged uint64 // the first of the latest steps whose recorded outputs were kept; 0 if there were none
	runs     []run  // the runs that hold the state, oldest first

	oldest uint64 // the oldest run that is needed; not stored
}

func (s *snapshot) encode(of origin) []byte {
	dst := of.begin(make([]byte, 0, 256+len(s.shape)+64*len(s.runs)), snapshotVersion)
	dst = appendString(dst, s.shape)
	dst = appendString(dst, s.version)
	dst = binary.AppendVarint(dst, s.clock)
	dst = binary.AppendUvarint(dst, s.fence)
	dst = s.place.encode(dst)
	dst = s.refusals.encode(dst)
	dst = binary.AppendUvarint(dst, s.diverged)
	dst = binary.AppendUvarint(dst, uint64(len(s.runs)))
	for i := range s.runs {
		dst = s.runs[i].encode(dst)
	}
	return of.seal(dst)
}

func decodeSnapshot(of origin, data []byte) (s snapshot, err error) {
	in, err := of.open("snapshot", snapshotVersion, data)
	if err != nil {
		return s, err
	}
	r := reader{data: in}
	s.shape = r.string()
	s.version = r.string()
	s.clock = r.int()
	s.fence = r.uint()
	s.place.decode(&r)
	s.refusals.decode(&r)
	s.diverged = r.uint()
	for range r.count() {
		var x run
		x.decode(&r)
		s.runs = append(s.runs, x)
	}
	r.bad = r.bad || len(r.data) > 0
	return s, r.err("snapshot")
}
