package toolserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// callParts are the buckets whose keys begin with the digest of a call.
var callParts = []string{outboxBucket, subscriptionBucket, questionBucket}

// A payload is a session on its way. Nothing in it is a name of a file, and no key
// of the store: keys are computed anew from what it says.
type payload struct {
	Version  int            `json:"version"`
	Session  string         `json:"session"`
	Calls    []payloadCall  `json:"calls"`
	Finished []finishedCall `json:"finished"`
	Grants   []payloadGrant `json:"grants"`
	Tool     []byte         `json:"tool"` // what the Migrator has exported
	HasTool  bool           `json:"has_tool"`
}

const payloadVersion = 1

// A payloadCall is a call that is not finished.
type payloadCall struct {
	Record callRecord    `json:"record"`
	Parts  []payloadPart `json:"parts"`
	Result []byte        `json:"result"` // if it had one, and is not finished
}

// A payloadPart is an entry of one of callParts. Its key begins with the call's
// digest, which is not in it.
type payloadPart struct {
	Bucket string `json:"bucket"`
	Key    []byte `json:"key"`
	Value  []byte `json:"value"`
}

// A finishedCall is the key of a call that must not run again.
type finishedCall struct {
	ID []byte `json:"id"`
	At int64  `json:"at"` // when it was finished, in nanoseconds since 1970

	Session []byte `json:"session"` // sessionTag
	More    []byte `json:"more"`    // the rest of what is remembered of it
	Result  []byte `json:"result"`  // if it is kept
}

// A payloadGrant is an entry of grantBucket.
type payloadGrant struct {
	Key     []byte `json:"key"`
	Session []byte `json:"session"` // sessionTag
}

// grantBytes is how long the keys of grantBucket are.
const grantBytes = 3 * len(digest{})

// grants returns what was granted in the session.
func (of session) grants(tx tx) (all []payloadGrant) {
	tx.each(grantBucket, nil, func(k, v []byte) bool {
		if bytes.HasPrefix(v, of.tag()) {
			all = append(all, payloadGrant{slices.Clone(k), slices.Clone(v)})
		}
		return true
	})
	return all
}

// callsOf returns the names of a session's calls in the store.
func (s *Server) callsOf(of session) (ids []digest, err error) {
	err = s.store.view(func(tx tx) error {
		ids = nil
		tx.each(callBucket, nil, func(k, v []byte) bool {
			if r, inv, err := readCall(v); err == nil && len(k) == len(digest{}) && of.has(callKey{runtime: r.Runtime}, inv) {
				ids = append(ids, digest(k))
			}
			return true
		})
		return nil
	})
	return ids, err
}

// hasCalls reports whether the server knows of any call of a session.
func (s *Server) hasCalls(of session) (known bool, err error) {
	if ids, err := s.callsOf(of); err != nil || len(ids) > 0 {
		return err == nil, err
	}
	err = s.store.view(func(tx tx) error {
		known = false
		tx.each(finishedBucket, nil, func(_, v []byte) bool {
			known = isTagged(v, of)
			return !known
		})
		return nil
	})
	return known, err
}

// isTagged reports whether a value of finishedBucket is of a session.
func isTagged(value []byte, of session) bool {
	tag := of.tag()
	return len(value) >= 8 && bytes.HasPrefix(value[8:], tag)
}

func readCall(data []byte) (callRecord, *agentproto.Invocation, error) {
	var r callRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return r, nil, err
	}
	inv, err := agentproto.DecodeInvocation(slices.Clone(r.Invocation), agentproto.Limits{Bytes: int64(len(r.Invocation)) + 1})
	return r, inv, err
}

// export returns everything of a frozen session.
func (s *Server) export(ctx context.Context, of session) ([]byte, error) {
	ids, err := s.callsOf(of)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errExport, err)
	}
	p := payload{Version: payloadVersion, Session: of.ID}
	if err := s.store.view(func(tx tx) error {
		p.Calls, p.Finished = nil, nil
		for _, id := range ids {
			c, err := exportCall(tx, id)
			if err != nil {
				return err
			}
			p.Calls = append(p.Calls, c)
		}
		tx.each(finishedBucket, nil, func(k, v []byte) bool {
			if isTagged(v, of) {
				f := finishedCall{ID: slices.Clone(k), At: int64(binary.BigEndian.Uint64(v)), Session: slices.Clone(v[8:tagEnd]), More: slices.Clone(v[tagEnd:])}
				f.Result = exportResult(tx, k)
				p.Finished = append(p.Finished, f)
			}
			return true
		})
		p.Grants = of.grants(tx)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("%w: %w", errExport, err)
	}
	if p.Tool, err = s.opts.Migrator.Export(ctx, of.ID); err != nil {
		return nil, fmt.Errorf("%w: %w", errExport, err)
	}
	p.HasTool = p.Tool != nil
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errExport, err)
	}
	if int64(len(data)) > s.opts.MigrationBytes {
		return nil, fmt.Errorf("%w: it has %d bytes, MigrationBytes is %d", errTooLarge, len(data), s.opts.MigrationBytes)
	}
	return data, nil
}

// exportCall returns a call. Questions that wait for a user are left behind, with
// their addresses here: the function runs again at the destination and asks anew.
// Those that were answered come along, so that nobody is asked twice.
func exportCall(tx tx, id digest) (c payloadCall, err error) {
	if err := json.Unmarshal(tx.get(callBucket, id[:]), &c.Record); err != nil {
		return c, err
	}
	c.Result = exportResult(tx, id[:])
	for _, bucket := range callParts {
		tx.each(bucket, id[:], func(k, v []byte) bool {
			if bucket == outboxBucket && c.Record.Phase == running {
				var m messageRecord
				if err = json.Unmarshal(v, &m); err != nil {
					return false
				}
				if m.Kind == agentproto.TypeOAuth || m.Kind == agentproto.TypeUserChoice {
					return true
				}
			}
			if bucket == questionBucket {
				var q questionRecord
				if err = json.Unmarshal(v, &q); err != nil {
					return false
				}
				if q.Answer == nil {
					return true
				}
			}
			c.Parts = append(c.Parts, payloadPart{bucket, slices.Clone(k[len(id):]), slices.Clone(v)})
			return true
		})
	}
	return c, err
}

// readPayload reads what export has returned at another instance, and checks that
// all of it is of one session.
func readPayload(data []byte, of session) (*payload, error) {
	p := new(payload)
	if err := strict.Unmarshal(data, p, jsontext.AllowDuplicateNames(false), strict.RejectUnknownMembers(true)); err != nil {
		return nil, errors.New("it is not a payload")
	}
	if p.Version != payloadVersion {
		return nil, fmt.Errorf("its version is %d, not %d", p.Version, payloadVersion)
	}
	if p.Session != of.ID {
		return nil, errors.New("it is of another session")
	}
	for _, c := range p.Calls {
		if err := c.check(of); err != nil {
			return nil, err
		}
	}
	for _, f := range p.Finished {
		if len(f.ID) != len(digest{}) || !bytes.HasPrefix(f.Session, of.tag()) || len(f.Session) != len(sessionTag("", "")) {
			return nil, errors.New("a finished call is of another session")
		}
		if n := len(f.More); n != 0 && n != wholeEnd-tagEnd || len(f.Result) > maxKeptResult {
			return nil, errors.New("a finished call has more than there is")
		}
	}
	for _, g := range p.Grants {
		if len(g.Key) != grantBytes || !bytes.HasPrefix(g.Session, of.tag()) || len(g.Session) != len(sessionTag("", "")) {
			return nil, errors.New("a grant is of another session")
		}
	}
	return p, nil
}

// check reports whether a call is whole, and one of the session.
func (c *payloadCall) check(of session) error {
	inv, err := c.invocation()
	switch {
	case err != nil:
		return errors.New("an invocation cannot be read")
	case !of.has(callKey{runtime: c.Record.Runtime}, inv):
		return errors.New("a call is of another session")
	case len(c.Result) > maxKeptResult:
		return errors.New("a call has a result that is too large")
	case c.Record.Phase != running && c.Record.Phase != subscribed && c.Record.Phase != resolved:
		return errors.New("a call is in no known phase")
	}
	for _, p := range c.Parts {
		if !slices.Contains(callParts, p.Bucket) || len(p.Key) > maxPartKey || p.Bucket == subscriptionBucket && len(p.Key) > 0 {
			return errors.New("a part of a call has no place")
		}
		var q questionRecord
		if p.Bucket == questionBucket && (json.Unmarshal(p.Value, &q) != nil || q.Answer == nil) {
			return errors.New("a question has no answer")
		}
		if p.Bucket != outboxBucket {
			continue
		}
		var m messageRecord
		if json.Unmarshal(p.Value, &m) != nil || len(p.Key) != 8 {
			return errors.New("a message cannot be read")
		}
		msg, err := agentproto.DecodeCallback(m.Body, agentproto.Limits{Bytes: int64(len(m.Body)) + 1})
		if err != nil || msg.Type() != m.Kind || msg.Key().GroupID != inv.GroupID || msg.Key().ID != inv.ID && m.Kind != agentproto.TypeViewUpdate {
			return errors.New("a message is not one of its call")
		}
	}
	return nil
}

// maxPartKey is more than any key of callParts has after the digest.
const maxPartKey = 64

func (c *payloadCall) invocation() (*agentproto.Invocation, error) {
	return agentproto.DecodeInvocation(slices.Clone(c.Record.Invocation), agentproto.Limits{Bytes: int64(len(c.Record.Invocation)) + 1})
}

// readdress makes an answered question one of this instance's.
func readdress(record []byte, public string) ([]byte, error) {
	var q questionRecord
	if err := json.Unmarshal(record, &q); err != nil {
		return nil, err
	}
	q.URL = public
	return json.Marshal(q)
}

// importCalls puts the calls of a payload into the store and returns their names.
// Calls that are finished here are left out.
func (p *payload) importCalls(tx tx, public string) (ids []digest, finished int, err error) {
	for _, c := range p.Calls {
		inv, err := c.invocation()
		if err != nil {
			return nil, 0, err
		}
		id := c.Record.key(inv).digest()
		if tx.get(finishedBucket, id[:]) != nil {
			continue
		}
		record, err := json.Marshal(c.Record)
		if err != nil {
			return nil, 0, err
		}
		if err := errors.Join(deleteCall(tx, id), tx.put(callBucket, id[:], record), importResult(tx, id[:], c.Result, time.Now())); err != nil {
			return nil, 0, err
		}
		for _, part := range c.Parts {
			if part.Bucket == questionBucket {
				if part.Value, err = readdress(part.Value, public); err != nil {
					return nil, 0, err
				}
			}
			if err := tx.put(part.Bucket, append(id[:len(id):len(id)], part.Key...), part.Value); err != nil {
				return nil, 0, err
			}
		}
		ids = append(ids, id)
	}
	for _, f := range p.Finished {
		if tx.get(finishedBucket, f.ID) != nil {
			continue
		}
		at := binary.BigEndian.AppendUint64(nil, uint64(max(0, min(f.At, time.Now().UnixNano()))))
		tagged := append(append(at[:8:8], f.Session...), f.More...)
		if err := errors.Join(tx.put(finishedBucket, f.ID, tagged), tx.put(ageBucket, append(at[:8:8], f.ID...), nil)); err != nil {
			return nil, 0, err
		}
		if err := importResult(tx, f.ID, f.Result, time.Unix(0, int64(binary.BigEndian.Uint64(at)))); err != nil {
			return nil, 0, err
		}
		finished++
	}
	for _, g := range p.Grants {
		if err := tx.put(grantBucket, g.Key, g.Session); err != nil {
			return nil, 0, err
		}
	}
	return ids, finished, nil
}
