package engine

import (
	"context"
	"errors"
	"fmt"
)

// Has reports whether the key was accepted by an input that accepts each key once.
//
// Where the history is elsewhere the question is a record of it, which adds nothing: so the
// answer is that of one moment after the question was asked, whoever runs the location, and
// sees every Send that returned before.
func (in *KInlet[K, V]) Has(ctx context.Context, k K) (bool, error) {
	s := in.site
	if r := s.g.set.Remote; r != nil {
		return in.hasRemote(ctx, r, k)
	}
	h := in.hash.Hash(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	return in.seen.Get(k, h) != nil, nil
}

func (in *KInlet[K, V]) hasRemote(ctx context.Context, r Remote, k K) (bool, error) {
	key, err := in.site.g.set.Codec.Append(nil, k)
	if err != nil {
		return false, fmt.Errorf("dataflow: encoding a key %T for %s: %w", k, in.op, err)
	}
	_, err = r.Send(ctx, in.site.number, []Record{{Op: in.op.index, Kind: kindHas, Key: key}}, true)
	if errors.Is(err, ErrDuplicate) {
		return true, nil
	}
	return false, err
}

// answerHas refuses the question for a key that is there, as its entry would be refused.
func (in *KInlet[K, V]) answerHas(r *Record, c Codec) (bool, error) {
	var k K
	if in.seen == nil {
		return false, fmt.Errorf("%w: it asks for a key, of %s", errRecord, in.op)
	}
	if err := c.Decode(r.Key, &k); err != nil {
		return false, fmt.Errorf("dataflow: decoding a key %T for %s: %w", k, in.op, err)
	}
	return in.seen.Get(k, in.hash.Hash(k)) == nil, nil
}
