package toolserver

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// A runtime may invoke a key again: because it did not see the acknowledgement, or because it
// has lost what it knew of the call and has made another callback_url for it. Every invocation
// that is acknowledged gets an answer (doc/protocol.md §4.6):
//
//	same callback_url    the call's own messages are the answer
//	another callback_url the call's messages go there from now on, those that wait for
//	                     their delivery too, and the result again if it was delivered;
//	                     after the call has ended the result is sent there once more
//	another operation, other arguments, or another user if both name one
//	                     an error result at the callback_url of that invocation, after the
//	                     call's own result if that goes to the same one
//
// Only the runtime of the call can do so, since the runtime is part of the key. A callback_url
// that the call had before is not taken again, or an invocation that was late on its way, or
// was captured, would turn the call back to an address that nobody listens at.

// An address is where the messages of a call go.
type address struct {
	text     string
	url      *url.URL
	later    bool            // the call had another one before
	replaced context.Context // ends with errReaddressed when another one takes its place
	replace  context.CancelCauseFunc
}

func newAddress(text string, u *url.URL) *address {
	a := &address{text: text, url: u}
	a.replaced, a.replace = context.WithCancelCause(context.Background())
	return a
}

// messageID returns the webhook-id of a message at this address. It is another one than at the
// address before: a runtime that has taken the message there would drop it here.
func (a *address) messageID(m *message) string {
	if a.later {
		return m.id + "_" + brief(a.text)
	}
	return m.id
}

// maxAddresses is how many addresses of one call are known.
const maxAddresses = 8

var (
	errReaddressed = errors.New("toolserver: the call has another callback_url")
	errOtherCall   = errors.New("the id of this call is that of another call, with another operation, user or arguments")
	errNotKept     = errors.New("the call has ended before, and its result is no longer kept")
)

// brief returns what is remembered of an address.
func brief(text string) string {
	d := sha256.Sum256([]byte(text))
	return hex.EncodeToString(d[:8])
}

// A print tells invocations of one key apart: 8 bytes for operation and arguments, and 8 for
// the user, which are zero if the invocation names none.
type print [16]byte

// same reports whether two invocations are for the same call. One that names no user may be
// for any.
func (p print) same(other print) bool {
	user, otherUser := [8]byte(p[8:]), [8]byte(other[8:])
	return [8]byte(p[:]) == [8]byte(other[:]) && (user == otherUser || user == [8]byte{} || otherUser == [8]byte{})
}

func printOf(inv *agentproto.Invocation) (p print) {
	args := slices.Clone(inv.Arguments)
	if args == nil || args.Kind() == 'n' {
		args = jsontext.Value("{}")
	}
	// Large integers stay as they are, so that two of them are not taken for one.
	args.Canonicalize(jsontext.CanonicalizeRawInts(false))
	text, _ := json.Marshal([]string{inv.Operation, string(args)})
	d := sha256.Sum256(text)
	copy(p[:8], d[:])
	if inv.UserID != nil && *inv.UserID != "" {
		d = sha256.Sum256([]byte(*inv.UserID))
		copy(p[8:], d[:])
	}
	return p
}

// again answers a repeated invocation of a call that is not finished. The status is 0 if the
// call has finished meanwhile.
func (s *Server) again(c *call, inv *agentproto.Invocation, callback *url.URL) (status int) {
	if !printOf(inv).same(printOf(c.inv)) {
		s.log.Warn("an id was used for another call", "tool", inv.Operation)
		return s.reply(c.key, inv, callback, errorOf(inv, errOtherCall))
	}
	switch err := c.readdress(inv.CallbackURL, callback); {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, ErrCancelled):
		return 0
	case errors.Is(err, errNotKept):
		return s.reply(c.key, inv, callback, errorOf(inv, err))
	default:
		if !errors.Is(err, ErrClosing) {
			s.log.Error("invocation refused: its callback_url cannot be put into the store", "tool", inv.Operation, "error", err)
		}
		return http.StatusServiceUnavailable
	}
}

// againFinished answers a repeated invocation of a call that is remembered.
func (s *Server) againFinished(key callKey, f finishedRecord, inv *agentproto.Invocation, callback *url.URL) (status int) {
	switch {
	case !f.whole: // it was remembered before there was more to know
		return http.StatusOK
	case !f.print.same(printOf(inv)):
		s.log.Warn("an id was used for another call", "tool", inv.Operation)
		return s.reply(key, inv, callback, errorOf(inv, errOtherCall))
	case f.address == brief(inv.CallbackURL):
		return http.StatusOK
	}
	r, err := s.keptResult(key.digest())
	if err != nil {
		r = errorOf(inv, err)
	}
	r.CallID, r.Subscription = inv.CallID, false // no event follows
	return s.reply(key, inv, callback, r)
}

func errorOf(inv *agentproto.Invocation, err error) *agentproto.ToolResult {
	return agentproto.ErrorResult(inv.Key(), inv.CallID, "%s", err)
}

// readdress has the messages of the call go to another address. It returns ErrCancelled if the
// call is finished, errNotKept if its result was delivered and cannot be sent again, and
// ErrClosing if it goes on in the next process or at another instance.
func (c *call) readdress(text string, u *url.URL) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.address.text == text || slices.Contains(c.addresses, brief(text)) {
		return nil
	}
	switch {
	case c.phase == finished:
		return ErrCancelled
	case c.suspended || c.moving:
		return ErrClosing
	}
	var again *message
	isResult := func(m *message) bool { return m.kind == agentproto.TypeToolResult }
	if c.phase != running && !slices.ContainsFunc(c.queue, isResult) {
		r, err := c.server.keptResult(c.id)
		if err != nil {
			return errNotKept
		}
		if again, err = c.server.pack(c, r); err != nil {
			return errNotKept
		}
		again.posted = time.Now()
		if again.number = c.number + 1; len(c.queue) > 0 {
			again.number = c.queue[0].number - 1 // the messages before that one are delivered
		}
	}
	was, before := c.address, c.addresses
	c.address = newAddress(text, u)
	c.address.later = true
	c.addresses = append(slices.Clone(before), brief(was.text))
	c.addresses = c.addresses[max(0, len(c.addresses)-maxAddresses):]
	record, err := c.record(c.phase)
	var posted []byte
	if err == nil && again != nil {
		posted, err = again.record()
	}
	if err == nil {
		err = c.server.store.update(func(tx tx) error {
			if again != nil {
				if err := tx.put(outboxBucket, c.messageKey(again), posted); err != nil {
					return err
				}
			}
			return tx.put(callBucket, c.id[:], record)
		})
	}
	if err != nil {
		c.address, c.addresses = was, before
		return err
	}
	if again != nil {
		c.number = max(c.number, again.number)
		c.queue = slices.Insert(c.queue, 0, again)
		if !c.posting {
			c.posting = true
			go c.deliver()
		}
	}
	was.replace(errReaddressed)
	return nil
}

// reply accepts an invocation whose answer is known, as a call of its own that only delivers.
// It is named by the invocation that it answers, so that one is answered once however often it
// is repeated.
func (s *Server) reply(key callKey, inv *agentproto.Invocation, callback *url.URL, r *agentproto.ToolResult) (status int) {
	p := printOf(inv)
	key.reply = hex.EncodeToString(p[:]) + brief(inv.CallbackURL)
	s.mu.Lock()
	if c := s.calls[key]; c != nil {
		s.mu.Unlock()
		if <-c.kept; c.keptErr != nil {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	if f, err := s.isFinished(key.digest()); err != nil || !f.known && s.full(key.runtime) {
		s.mu.Unlock()
		return http.StatusServiceUnavailable
	} else if f.known {
		s.mu.Unlock()
		return http.StatusOK
	}
	c := newCall(s, key, inv, callback)
	c.phase = resolved
	s.enter(c)
	s.mu.Unlock()

	m, err := s.pack(c, r)
	var record []byte
	if err == nil {
		record, err = c.record(resolved)
	}
	c.mu.Lock()
	if err == nil {
		err = c.put(m, func(tx tx) error { return tx.put(callBucket, c.id[:], record) })
	}
	c.mu.Unlock()
	c.keptErr = err
	close(c.kept)
	if err != nil {
		s.log.Error("invocation refused: its answer cannot be put into the store", "tool", inv.Operation, "error", err)
		s.remove(c)
		return http.StatusServiceUnavailable
	}
	c.end()
	return http.StatusOK
}

// turn waits until a reply may be sent: not before the result of the call whose key it has, if
// that goes to the same address, where it would be taken for that result. It reports false if
// the call goes on elsewhere before that, and so must the reply.
func (c *call) turn() bool {
	if c.key.reply == "" {
		return true
	}
	key := c.key
	key.reply = ""
	c.server.mu.Lock()
	other := c.server.calls[key]
	c.server.mu.Unlock()
	if other == nil {
		return true
	}
	other.mu.Lock()
	same := other.address.text == c.address.text
	other.mu.Unlock()
	if !same {
		return true
	}
	select {
	case <-other.answered:
		return true
	case <-other.gone:
		other.mu.Lock()
		defer other.mu.Unlock()
		return !other.suspended
	case <-c.life.Done():
		return true
	}
}

// The buckets of results, which are kept for a runtime that asks again.
const (
	resultBucket    = "results"    // digest: when, the result
	resultAgeBucket = "results_at" // when, digest: how many bytes; the order of resultBucket
)

const (
	maxKeptResult  = 64 << 10 // bytes of one result that is kept
	maxKeptResults = 32 << 20 // bytes of all of them
)

// keepResult keeps the result of a call, and forgets the oldest ones if there are too many. It
// returns how many more bytes there are.
func (s *Server) keepResult(tx tx, id digest, body []byte) (more int64, err error) {
	if len(body) > maxKeptResult {
		return 0, nil
	}
	at := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	more = int64(len(body))
	var old [][]byte
	tx.each(resultAgeBucket, nil, func(k, v []byte) bool {
		if s.resultBytes.Load()+more <= maxKeptResults {
			return false
		}
		more -= int64(binary.BigEndian.Uint64(v))
		old = append(old, slices.Clone(k))
		return true
	})
	for _, k := range old {
		err = errors.Join(err, tx.delete(resultAgeBucket, k), tx.delete(resultBucket, k[8:]))
	}
	return more, errors.Join(err,
		tx.put(resultBucket, id[:], append(at[:8:8], body...)),
		tx.put(resultAgeBucket, append(at[:8:8], id[:]...), binary.BigEndian.AppendUint64(nil, uint64(len(body)))))
}

// dropResult forgets a result. It returns how many more bytes there are, which are fewer.
func dropResult(tx tx, id []byte) (more int64, err error) {
	v := tx.get(resultBucket, id)
	if v == nil {
		return 0, nil
	}
	at := slices.Clone(v[:8])
	return int64(8 - len(v)), errors.Join(tx.delete(resultBucket, id), tx.delete(resultAgeBucket, append(at, id...)))
}

// importResult keeps a result that has come from another instance.
func importResult(tx tx, id, body []byte, at time.Time) error {
	if body == nil {
		return nil
	}
	_, err := dropResult(tx, id)
	when := binary.BigEndian.AppendUint64(nil, uint64(max(0, at.UnixNano())))
	return errors.Join(err, tx.put(resultBucket, id, append(when[:8:8], body...)),
		tx.put(resultAgeBucket, append(when[:8:8], id...), binary.BigEndian.AppendUint64(nil, uint64(len(body)))))
}

// exportResult returns the result of a call, or nil.
func exportResult(tx tx, id []byte) []byte {
	if v := tx.get(resultBucket, id); v != nil {
		return slices.Clone(v[8:])
	}
	return nil
}

// countResults counts the bytes of the results that the store keeps.
func (s *Server) countResults() {
	s.store.view(func(tx tx) error {
		bytes := int64(0)
		tx.each(resultAgeBucket, nil, func(_, v []byte) bool { bytes += int64(binary.BigEndian.Uint64(v)); return true })
		s.resultBytes.Store(bytes)
		return nil
	})
}

// keptResult returns the result that a call had, or errNotKept.
func (s *Server) keptResult(id digest) (*agentproto.ToolResult, error) {
	var body []byte
	if err := s.store.view(func(tx tx) error { body = exportResult(tx, id[:]); return nil }); err != nil || body == nil {
		return nil, errNotKept
	}
	m, err := agentproto.DecodeCallback(body, agentproto.Limits{Bytes: maxKeptResult + 1})
	if r, ok := m.(*agentproto.ToolResult); ok && err == nil {
		return r, nil
	}
	return nil, errNotKept
}
