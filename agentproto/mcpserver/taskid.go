package mcpserver

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// A taskId is the key of a call and the time it was made, sealed for its owner. It consists of ASCII letters, digits, ".", "-"
// and "_", because it is sent in the header Mcp-Name. See doc/decisions/0093-a-task-is-a-call.md.

const idPrefix = "t1."

// maxTaskID is the longest taskId that is examined: a longer one was not made here.
const maxTaskID = 2048

// contextOf returns the associated data of an owner's taskIds. The constant text separates them from everything else sealed with
// the key.
func contextOf(owner string) []byte { return []byte("millrace mcp task\x00" + owner) }

// threadOf returns the default thread of an owner's calls.
func threadOf(owner string) string {
	sum := sha256.Sum256([]byte("millrace mcp owner\x00" + owner))
	return "mcp-" + hex.EncodeToString(sum[:8])
}

// seal returns the taskId of a call.
func (s *Server) seal(owner string, key agentproto.CallKey, created time.Time) (string, error) {
	text := binary.AppendVarint(nil, created.UnixMilli())
	text = binary.AppendUvarint(text, uint64(len(key.GroupID)))
	text = append(append(text, key.GroupID...), key.ID...)
	kid, sealed, err := s.opts.Sealer.Seal(text, contextOf(owner))
	if err != nil {
		return "", err
	}
	return idPrefix + kid + "." + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// open returns the call of a taskId. It returns false for any text that is not a taskId of this owner.
func (s *Server) open(owner, taskID string) (key agentproto.CallKey, created time.Time, ok bool) {
	kid, text, found := strings.Cut(strings.TrimPrefix(taskID, idPrefix), ".")
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !found || err != nil || !strings.HasPrefix(taskID, idPrefix) || len(taskID) > maxTaskID {
		return key, created, false
	}
	opened, err := s.opts.Sealer.Open(kid, sealed, contextOf(owner))
	if err != nil {
		return key, created, false
	}
	ms, n := binary.Varint(opened)
	if n <= 0 {
		return key, created, false
	}
	size, m := binary.Uvarint(opened[n:])
	rest := opened[n+max(m, 0):]
	if m <= 0 || size > uint64(len(rest)) {
		return key, created, false
	}
	return agentproto.CallKey{GroupID: string(rest[:size]), ID: string(rest[size:])}, time.UnixMilli(ms).UTC(), true
}
