package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// A Place names a session: the root thread, and its runtime where runtimes say who they are.
// All that happens to a session has one order.
type Place struct{ Runtime, Session string }

// PlaceOf returns the place of an invocation from a runtime, which is empty where runtimes do
// not say who they are.
func PlaceOf(runtime string, inv *agentproto.Invocation) Place {
	if len(inv.ThreadAncestors) > 0 {
		return Place{runtime, inv.ThreadAncestors[0]}
	}
	return Place{runtime, inv.GroupID}
}

// A CallID names a call of any runtime. The ids of the protocol are unique in one thread of one
// runtime only.
type CallID struct {
	Runtime string // what it says it is, or the origin of its callback_url
	Group   string
	ID      string
}

// Digest returns 32 bytes that stand for the call.
func (c CallID) Digest() [sha256.Size]byte {
	list, _ := json.Marshal([]string{c.Runtime, c.Group, c.ID})
	return sha256.Sum256(list)
}

// A Key stands for a call, or for a reply, among those that are remembered.
type Key [16]byte

func (c CallID) key() Key {
	d := c.Digest()
	return Key(d[:])
}

// A Name is a call as cancellations name it: by thread and id. ID is empty for a whole thread.
type Name struct{ Runtime, Group, ID string }

func (p Place) name(c CallID) Name { return Name{p.Runtime, c.Group, c.ID} }

// A Print tells invocations of one key apart: 8 bytes for operation and arguments, and 8 for
// the user, which are zero if the invocation names none.
type Print [16]byte

// PrintOf returns the print of an invocation.
func PrintOf(inv *agentproto.Invocation) (p Print) {
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

// same reports whether two invocations are for the same call. One that names no user may be
// for any.
func (p Print) same(other Print) bool {
	user, otherUser := [8]byte(p[8:]), [8]byte(other[8:])
	return [8]byte(p[:]) == [8]byte(other[:]) && (user == otherUser || user == [8]byte{} || otherUser == [8]byte{})
}

// A brief is what is remembered of an address.
type brief [8]byte

func briefOf(address string) brief {
	d := sha256.Sum256([]byte(address))
	return brief(d[:])
}

func (b brief) String() string { return hex.EncodeToString(b[:]) }

// replyKey names the answer to an invocation that has the id of another call, or of one that
// is finished, by that invocation and its address.
func replyKey(c CallID, p Print, address string) Key {
	d, b := c.Digest(), briefOf(address)
	sum := sha256.Sum256(slices.Concat(d[:], p[:], b[:]))
	return Key(sum[:])
}
