package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// A Place names a session: by its root thread and, where runtimes authenticate, its runtime. All
// events of a session are in one order.
type Place struct{ Runtime, Session string }

// PlaceOf returns the place of an invocation from a runtime, which is empty where runtimes do not
// authenticate.
func PlaceOf(runtime string, inv *agentproto.Invocation) Place {
	if len(inv.ThreadAncestors) > 0 {
		return Place{runtime, inv.ThreadAncestors[0]}
	}
	return Place{runtime, inv.GroupID}
}

// A CallID names a call of any runtime. The ids of the protocol are unique only within one thread
// of one runtime.
type CallID struct {
	Runtime string // its authenticated name, or the origin of its callback_url
	Group   string
	ID      string
}

// Digest returns a SHA-256 digest of the call's id.
func (c CallID) Digest() [sha256.Size]byte {
	list, _ := json.Marshal([]string{c.Runtime, c.Group, c.ID})
	return sha256.Sum256(list)
}

// A Key identifies a remembered call or reply.
type Key [16]byte

func (c CallID) key() Key {
	d := c.Digest()
	return Key(d[:])
}

// A Name is a call as cancellations name it: by thread and id. An empty ID means the whole thread.
type Name struct{ Runtime, Group, ID string }

func (p Place) name(c CallID) Name { return Name{p.Runtime, c.Group, c.ID} }

// A Print distinguishes invocations of one key: 8 bytes for operation and arguments, and 8 for the
// user, which are zero if the invocation names none.
type Print [16]byte

// PrintOf returns the print of an invocation.
func PrintOf(inv *agentproto.Invocation) (p Print) {
	args := slices.Clone(inv.Arguments)
	if args == nil || args.Kind() == 'n' {
		args = jsontext.Value("{}")
	}
	// Large integers keep their digits, so that two different ones are not taken for the same.
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

// same reports whether two invocations are for the same call. An invocation that names no user
// matches any user.
func (p Print) same(other Print) bool {
	user, otherUser := [8]byte(p[8:]), [8]byte(other[8:])
	return [8]byte(p[:]) == [8]byte(other[:]) && (user == otherUser || user == [8]byte{} || otherUser == [8]byte{})
}

// A brief is a short digest of an address.
type brief [8]byte

func briefOf(address string) brief {
	d := sha256.Sum256([]byte(address))
	return brief(d[:])
}

func (b brief) String() string { return hex.EncodeToString(b[:]) }

// replyKey returns the key of the answer to an invocation that reuses the id of another call,
// finished or not. It depends on that invocation and its address.
func replyKey(c CallID, p Print, address string) Key {
	d, b := c.Digest(), briefOf(address)
	sum := sha256.Sum256(slices.Concat(d[:], p[:], b[:]))
	return Key(sum[:])
}
