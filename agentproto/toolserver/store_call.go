package toolserver

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// The buckets of a server's calls. A call is named by its digest, so that what is
// kept of it is beside each other and ids of any length and form do no harm.
const (
	callBucket         = "calls"         // digest: callRecord, while the call is not finished
	outboxBucket       = "outbox"        // digest, number: messageRecord, in the order of the call
	subscriptionBucket = "subscriptions" // digest: the state of a subscription
	questionBucket     = "questions"     // digest, digest of a question, number: questionRecord
	finishedBucket     = "finished"      // digest: a finishedRecord
	ageBucket          = "finished_at"   // when, digest: nothing; the order of finishedBucket
)

// A callRecord is an accepted call. With its messages and its state it is all that
// another process, or another instance, needs to go on with it.
type callRecord struct {
	Runtime    string          `json:"runtime"`
	Invocation json.RawMessage `json:"invocation"`
	Accepted   time.Time       `json:"accepted"`
	Phase      phase           `json:"phase"`

	Callback  string   `json:"callback,omitempty"`  // if it is another one than the invocation's
	Callbacks []string `json:"callbacks,omitempty"` // the ones before, as brief has them
	Reply     string   `json:"reply,omitempty"`     // callKey.reply
}

// key returns the key of the call.
func (r *callRecord) key(inv *agentproto.Invocation) callKey {
	return callKey{r.Runtime, inv.Key(), r.Reply}
}

// A messageRecord is a message that is not delivered.
type messageRecord struct {
	Kind      string          `json:"kind"`
	ID        string          `json:"id"`
	Body      json.RawMessage `json:"body"`
	Posted    time.Time       `json:"posted"`
	NotBefore time.Time       `json:"not_before,omitzero"` // what the runtime asked for
}

// keepCall puts a call that was accepted into the store.
func (s *Server) keepCall(c *call) error {
	data, err := c.record(running)
	if err != nil {
		return err
	}
	return s.store.update(func(tx tx) error { return tx.put(callBucket, c.id[:], data) })
}

// record returns the record of a call in a phase. c.mu is held, or nobody else knows c.
func (c *call) record(p phase) ([]byte, error) {
	inv, err := agentproto.Encode(c.inv)
	if err != nil {
		return nil, err
	}
	r := callRecord{Runtime: c.key.runtime, Invocation: inv, Accepted: c.accepted.Round(0), Phase: p, Callbacks: c.addresses, Reply: c.key.reply}
	if c.address.text != c.inv.CallbackURL {
		r.Callback = c.address.text
	}
	return json.Marshal(r)
}

// keepMessage puts a message into the store, and changes with it what must be
// changed in one go. c.mu is held.
func (c *call) keepMessage(m *message, change func(tx) error) error {
	data, err := m.record()
	if err != nil {
		return err
	}
	return c.server.store.update(func(tx tx) error {
		if change != nil {
			if err := change(tx); err != nil {
				return err
			}
		}
		return tx.put(outboxBucket, c.messageKey(m), data)
	})
}

func (m *message) record() ([]byte, error) {
	return json.Marshal(messageRecord{m.kind, m.id, m.body, m.posted.Round(0), m.notBefore.Round(0)})
}

func (c *call) messageKey(m *message) []byte {
	return binary.BigEndian.AppendUint64(c.id[:len(c.id):len(c.id)], m.number)
}

// dropMessage removes a message that needs no delivery any more and, if finished,
// all that is kept of the call, whose key is remembered. c.mu is held.
func (c *call) dropMessage(m *message, finished bool) error {
	if finished {
		return c.forget()
	}
	return c.server.store.update(func(tx tx) error {
		return tx.delete(outboxBucket, c.messageKey(m))
	})
}

// forget removes everything of a call but its key. c.mu is held.
func (c *call) forget() error {
	s, more, bytes := c.server, 0, int64(0)
	err := s.store.update(func(tx tx) error {
		for _, bucket := range []string{callBucket, subscriptionBucket} {
			if err := tx.delete(bucket, c.id[:]); err != nil {
				return err
			}
		}
		for _, bucket := range []string{outboxBucket, questionBucket} {
			if err := deleteAll(tx, bucket, c.id[:]); err != nil {
				return err
			}
		}
		var err error
		more, bytes, err = s.remember(tx, c.id, c.remembered())
		return err
	})
	if err == nil {
		s.finished.Add(int64(more))
		s.resultBytes.Add(bytes)
	}
	return err
}

func deleteAll(tx tx, bucket string, prefix []byte) error {
	var keys [][]byte
	tx.each(bucket, prefix, func(k, _ []byte) bool {
		keys = append(keys, append([]byte(nil), k...))
		return true
	})
	for _, k := range keys {
		if err := tx.delete(bucket, k); err != nil {
			return err
		}
	}
	return nil
}

// maxRemembered is how many finished calls are remembered.
const maxRemembered = 1 << 20

// remember notes that a call is finished and forgets up to two that were finished
// long ago, so that there are not more and more of them and no call has to wait for
// a sweep. It returns how many more there are now, and how many more bytes of results.
func (s *Server) remember(tx tx, id digest, record []byte) (more int, bytes int64, err error) {
	now := time.Now()
	var old [][]byte
	full := s.finished.Load() >= maxRemembered
	tx.each(ageBucket, nil, func(k, _ []byte) bool {
		if at := int64(binary.BigEndian.Uint64(k)); !full && now.UnixNano()-at < int64(s.opts.Remember) {
			return false
		}
		old = append(old, append([]byte(nil), k...))
		return len(old) < 2
	})
	for _, k := range old {
		n, err := dropResult(tx, k[8:])
		bytes += n
		if err := errors.Join(err, tx.delete(ageBucket, k), tx.delete(finishedBucket, k[8:])); err != nil {
			return 0, 0, err
		}
	}
	more = 1 - len(old)
	if at := tx.get(finishedBucket, id[:]); at != nil { // it was there before, and is forgotten by age
		more--
		if err := tx.delete(ageBucket, append(append([]byte(nil), at[:8]...), id[:]...)); err != nil {
			return 0, 0, err
		}
	}
	at := binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano()))
	return more, bytes, errors.Join(tx.put(finishedBucket, id[:], append(at[:8:8], record...)), tx.put(ageBucket, append(at[:8:8], id[:]...), nil))
}

// A finishedRecord is what is remembered of a call that is finished.
type finishedRecord struct {
	known   bool // it was finished not long ago
	whole   bool // the rest is known
	print   print
	address string // where its messages went, as brief has it
}

// The parts of a value of finishedBucket: when, sessionTag, print, address. Those of earlier
// versions end with the tag.
const (
	tagEnd   = 8 + 32
	printEnd = tagEnd + len(print{})
	wholeEnd = printEnd + 16
)

// remembered returns what is kept of the call when it is finished, behind when that was.
func (c *call) remembered() []byte {
	p := printOf(c.inv)
	return append(append(sessionTag(c.key.runtime, sessionOf(c.inv)), p[:]...), brief(c.address.text)...)
}

// isFinished returns what is remembered of the call of a key.
func (s *Server) isFinished(id digest) (f finishedRecord, err error) {
	err = s.store.view(func(tx tx) error {
		v := tx.get(finishedBucket, id[:])
		f = finishedRecord{known: v != nil && time.Now().UnixNano()-int64(binary.BigEndian.Uint64(v)) < int64(s.opts.Remember)}
		if f.known && len(v) == wholeEnd {
			f.whole, f.print, f.address = true, print(v[tagEnd:printEnd]), string(v[printEnd:])
		}
		return nil
	})
	return f, err
}

// keptCalls returns the names of the calls in the store, and counts the ones that
// are remembered.
func (s *Server) keptCalls() (ids []digest, err error) {
	s.countResults()
	err = s.store.view(func(tx tx) error {
		tx.each(callBucket, nil, func(k, _ []byte) bool {
			if len(k) == len(digest{}) {
				ids = append(ids, digest(k))
			}
			return true
		})
		n := int64(0)
		tx.each(finishedBucket, nil, func(_, _ []byte) bool { n++; return true })
		s.finished.Store(n)
		return nil
	})
	return ids, err
}

// load makes a call of what is in the store.
func (s *Server) load(id digest) (c *call, err error) {
	err = s.store.view(func(tx tx) error {
		var r callRecord
		if err := json.Unmarshal(tx.get(callBucket, id[:]), &r); err != nil {
			return fmt.Errorf("its record cannot be read: %w", err)
		}
		inv, err := agentproto.DecodeInvocation(append([]byte(nil), r.Invocation...), agentproto.Limits{Bytes: int64(len(r.Invocation)) + 1})
		if err != nil {
			return fmt.Errorf("its invocation cannot be read: %w", err)
		}
		to := cmp.Or(r.Callback, inv.CallbackURL)
		callback, err := url.Parse(to)
		if err != nil {
			return errors.New("its callback_url cannot be read")
		}
		c = newCall(s, r.key(inv), inv, callback)
		c.address, c.addresses = newAddress(to, callback), r.Callbacks
		c.address.later = len(r.Callbacks) > 0
		c.accepted, c.phase = r.Accepted, r.Phase
		c.state = append([]byte(nil), tx.get(subscriptionBucket, id[:])...)
		tx.each(outboxBucket, id[:], func(k, v []byte) bool {
			var m messageRecord
			if err = json.Unmarshal(v, &m); err != nil || len(k) != len(id)+8 {
				err = fmt.Errorf("a message of it cannot be read: %w", err)
				return false
			}
			c.number = binary.BigEndian.Uint64(k[len(id):])
			if m.Kind == agentproto.TypeOAuth && c.phase == running {
				return true // the function runs again and asks again
			}
			c.queue = append(c.queue, &message{
				kind: m.Kind, id: m.ID, body: m.Body, number: c.number,
				posted: m.Posted, notBefore: m.NotBefore, failed: attemptsBy(time.Since(m.Posted)),
				ctx: c.life, lost: make(chan error, 1), to: c.address,
			})
			return true
		})
		if c.phase != running && !slices.ContainsFunc(c.queue, func(m *message) bool { return m.kind == agentproto.TypeToolResult }) {
			c.settled.Do(func() { close(c.answered) })
		}
		return err
	})
	return c, err
}
