package agentproto

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ProgressView is the type of the views by which a tool says how far a call is: see [Progress] and
// doc/decisions/0117-progress-is-a-view.md.
const ProgressView = "mcp.progress"

// A Progress is the content of a view of the type [ProgressView]: how far the call is that has sent it. A tool sends it as any other view.
// It is shown to whoever watches the conversation, and a client of MCP that has made the call is told. All members may be left out.
type Progress struct {
	Tool     string  `json:"tool,omitempty"`    // the name of the tool
	Progress float64 `json:"progress,omitzero"` // what is done
	Total    float64 `json:"total,omitzero"`    // what there is to do; 0 if that is not known
	Message  string  `json:"message,omitempty"` // a line for people
}

// maxProgress is how many bytes of a message are read.
const maxProgress = 1 << 10

// ProgressOf reads the content of a view. It reports false if that is no progress. Its texts are such as may be shown to people: see [PlainText].
func ProgressOf(content jsontext.Value) (p Progress, ok bool) {
	if err := json.Unmarshal(content, &p); err != nil {
		return Progress{}, false
	}
	p.Tool, p.Message = PlainText(p.Tool, maxProgress), PlainText(p.Message, maxProgress)
	return p, true
}

// String returns the message or, if there is none, how much of the total is done.
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
