package durable

import "encoding/binary"

// keepRefusals is how many refusals of a partition are remembered, for senders that learn late where their
// record is: the partition had another owner meanwhile, or another process owns it.
const keepRefusals = 4096

// Refusals are the latest records that a partition refused, in the order of the steps that took them.
type refusals struct {
	latest []refusal
	before uint64 // refusals of records up to this position may have been forgotten
}

// A refusal is the nonce of a record, the position up to which the refusing step took records, and, if the
// record was not refused but quarantined, its ID in the quarantine.
type refusal struct{ nonce, taken, letter uint64 }

// add remembers what a step refused. It returns the refusals that are forgotten to make space.
func (r *refusals) add(s *step) (forgotten []refusal) {
	for _, nonce := range s.Refused {
		r.latest = append(r.latest, refusal{nonce, s.taken, 0})
	}
	for _, x := range s.Parked {
		r.latest = append(r.latest, refusal{x.Nonce, s.taken, x.Letter})
	}
	if n := len(r.latest) - keepRefusals; n > 0 {
		forgotten, r.latest = r.latest[:n:n], r.latest[n:]
		r.before = forgotten[n-1].taken
	}
	return forgotten
}

func (r *refusals) encode(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, r.before)
	dst = binary.AppendUvarint(dst, uint64(len(r.latest)))
	for _, x := range r.latest {
		dst = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(dst, x.nonce), x.taken), x.letter)
	}
	return dst
}

func (r *refusals) decode(from *reader) {
	r.before = from.uint()
	for range from.count() {
		r.latest = append(r.latest, refusal{from.uint(), from.uint(), from.uint()})
	}
}
