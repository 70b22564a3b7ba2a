// Package outgoing sends the messages of calls from a tool server to its runtimes. A [Maker] makes
// messages without secrets, and a [Sender] makes the attempts to send them that the flow orders.
package outgoing

import (
	"crypto/rand"
	"errors"
	"log/slog"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

// ErrEncoding says that a message could not be encoded.
var ErrEncoding = errors.New("the result could not be encoded")

// textWithheld is the text of a result of which nothing else is left. It is not searched for
// secrets.
const textWithheld = "Error: the tool's answer had a credential in it and was withheld"

// A Maker makes messages.
type Maker struct {
	guard *leak.Guard
	log   *slog.Logger
}

// NewMaker returns a maker of messages without the secrets that the guard searches for.
func NewMaker(guard *leak.Guard, log *slog.Logger) *Maker { return &Maker{guard, log} }

// Make makes a message of a call, cleaned by Clean.
func (mk *Maker) Make(msg agentproto.Callback, of *agentproto.Invocation) (*tools.Message, error) {
	return mk.Pack(mk.Clean(msg, of))
}

// Pack makes a message without searching it for secrets.
func (mk *Maker) Pack(msg agentproto.Callback) (*tools.Message, error) {
	body, err := agentproto.Encode(msg)
	if err != nil {
		mk.log.Error("message cannot be encoded", "message", msg.Type(), "error", err)
		return nil, ErrEncoding
	}
	return &tools.Message{Kind: msg.Type(), ID: "msg_" + rand.Text(), Body: body}, nil
}
