package mcptasks

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Readable returns a result of tools/call as the SDK can decode it. For one part of the content that the SDK cannot decode, such as
// one of a type that it does not know, it refuses the whole result; then the call looks like one whose connection broke.
func Readable(result json.RawMessage) json.RawMessage {
	result, _ = readable(result)
	return result
}

// readable does the same, and reports whether the result was changed.
func readable(result json.RawMessage) (json.RawMessage, bool) {
	var r map[string]json.RawMessage
	if !bytes.Contains(result, []byte(`"content"`)) || decodes(result) || json.Unmarshal(result, &r) != nil || r["content"] == nil {
		return result, false
	}
	if data, err := withoutUnreadable(r); err == nil && decodes(data) {
		return data, true
	}
	return json.RawMessage(`{"resultType":"complete","isError":true,"content":[{"type":"text","text":"the call was carried out, but its result cannot be read"}]}`), true
}

// withoutUnreadable encodes a result with a text in place of each part of its content that cannot be decoded.
func withoutUnreadable(r map[string]json.RawMessage) ([]byte, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(r["content"], &parts); err != nil {
		return nil, err
	}
	for i, part := range parts {
		alone, err := json.Marshal(map[string][]json.RawMessage{"content": {part}})
		if err != nil {
			return nil, err
		}
		if !decodes(alone) {
			parts[i] = json.RawMessage(`{"type":"text","text":"[content that cannot be read]"}`)
		}
	}
	content, err := json.Marshal(parts)
	r["content"] = content
	data, failed := json.Marshal(r)
	return data, errors.Join(err, failed)
}

func decodes(result []byte) bool { return json.Unmarshal(result, new(mcp.CallToolResult)) == nil }
