package toolserver

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/running"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

var (
	errLeak     = errors.New("the state of the subscription had a credential in it")
	errEncoding = errors.New("the result could not be encoded")
)

// textWithheld is the result of a call of which nothing else is left. Nothing is looked for in it.
const textWithheld = "Error: the tool's answer had a credential in it and was withheld"

// pack makes a message of the call without looking into it.
func (s *Server) pack(msg agentproto.Callback) (*tools.Message, error) {
	body, err := agentproto.Encode(msg)
	if err != nil {
		s.log.Error("message cannot be encoded", "message", msg.Type(), "error", err)
		return nil, errEncoding
	}
	return &tools.Message{Kind: msg.Type(), ID: "msg_" + rand.Text(), Body: body}, nil
}

// post tells the flow what the function says. When it returns nil, that is durable.
func (c *call) post(ctx context.Context, p tools.Post) error {
	if err := c.postable(); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if p.Message != nil {
		var err error
		if p.Credit, err = c.fn.Spend(ctx, len(p.Message.Body)+256); err != nil {
			return err
		}
	}
	p.Call = c.id
	told, err := c.server.flow.Ask(c.at, tools.In{Post: &p})
	switch {
	case err != nil && c.server.isClosing():
		return ErrClosing
	case err != nil:
		c.server.log.Error("message is not in the state", "tool", c.inv.Operation, "error", err)
		return running.ErrFlow
	case told.Refused == tools.RefusedOver:
		return ErrCancelled
	case told.Refused != "":
		return errEnded
	}
	return nil
}

// postable returns why nothing may be posted, if so.
func (c *call) postable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch cause := context.Cause(c.ctx); {
	case c.suspended:
		return ErrClosing
	case c.ended:
		return errEnded
	case cause != nil && !errors.Is(cause, context.Canceled):
		return cause
	}
	return nil
}
