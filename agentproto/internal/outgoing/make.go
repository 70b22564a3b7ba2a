// Package outgoing is how messages of calls leave a tool server for its runtimes: a [Maker] makes
// them without secrets, and a [Sender] sends each as often as the flow has it sent.
package outgoing

import (
	"crypto/rand"
	"errors"
	"log/slog"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

// ErrEncoding says that a message could not be made.
var ErrEncoding = errors.New("the result could not be encoded")

// textWithheld is the result of a call of which nothing else is left. Nothing is looked for in it.
const textWithheld = "Error: the tool's answer had a credential in it and was withheld"

// A Maker makes messages.
type Maker struct {
	guard *leak.Guard
	log   *slog.Logger
}

// NewMaker returns a maker of messages without what the guard looks for.
func NewMaker(guard *leak.Guard, log *slog.Logger) *Maker { return &Maker{guard, log} }

// Make makes a message of a call, without what Clean takes out.
func (mk *Maker) Make(msg agentproto.Callback, of *agentproto.Invocation) (*tools.Message, error) {
	return mk.Pack(mk.Clean(msg, of))
}

// Pack makes a message without looking into it.
func (mk *Maker) Pack(msg agentproto.Callback) (*tools.Message, error) {
	body, err := agentproto.Encode(msg)
	if err != nil {
		mk.log.Error("message cannot be encoded", "message", msg.Type(), "error", err)
		return nil, ErrEncoding
	}
	return &tools.Message{Kind: msg.Type(), ID: "msg_" + rand.Text(), Body: body}, nil
}
