package agentproto

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ProgressView is the type of the views by which a tool reports the progress of a call: see [Progress] and
// doc/decisions/0117-progress-is-a-view.md.
const ProgressView = "mcp.progress"

// A Progress is the content of a view of the type [ProgressView]: the progress of the call that sent it. A tool sends it like any
// other view. It is shown to the viewers of the conversation, and reported to an MCP client that made the call. All members are
// optional.
type Progress struct {
	Tool     string  `json:"tool,omitempty"`    // the name of the tool
	Progress float64 `json:"progress,omitzero"` // how much is done
	Total    float64 `json:"total,omitzero"`    // how much there is to do; 0 if unknown
	Message  string  `json:"message,omitempty"` // a line for people
}

// maxProgress is the limit of each text in bytes.
const maxProgress = 1 << 10

// ProgressOf reads the content of a view. It reports false if the content is no progress. The returned texts are safe to show to
// people: see [PlainText].
func ProgressOf(content jsontext.Value) (p Progress, ok bool) {
	if err := json.Unmarshal(content, &p); err != nil {
		return Progress{}, false
	}
	p.Tool, p.Message = PlainText(p.Tool, maxProgress), PlainText(p.Message, maxProgress)
	return p, true
}

// String returns the message or, without one, how much of the total is done.
func (p Progress) String() string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }
	switch {
	case p.Message != "":
		return p.Message
	case p.Total > 0:
		return fmt.Sprintf("%s of %s", number(p.Progress), number(p.Total))
	}
	return number(p.Progress)
}
