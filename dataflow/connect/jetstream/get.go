package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// codeNotFound is the server's error if a message does not exist.
const codeNotFound natsjs.ErrorCode = 10037

// askWithin is how long to wait for the answer of a leader. It covers an election; after that the caller tries again.
const askWithin = 5 * time.Second

// A stored is a message as the leader returns it.
type stored struct {
	Sequence uint64    `json:"seq"`
	Time     time.Time `json:"time"`
	Header   []byte    `json:"hdrs"`
}

// get asks the leader of a stream for a message. If the stream allows direct access, the client would ask any replica, which may
// not have the last messages yet.
func get(ctx context.Context, js natsjs.JetStream, stream string, what map[string]any) (m stored, ok bool, err error) {
	body, err := json.Marshal(what)
	if err != nil {
		return m, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	resp, err := js.Conn().RequestWithContext(ctx, prefix(js)+"STREAM.MSG.GET."+stream, body)
	if err != nil {
		return m, false, fmt.Errorf("asking for a message: %w", err)
	}
	var answer struct {
		Error   *natsjs.APIError `json:"error"`
		Message stored           `json:"message"`
	}
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return m, false, fmt.Errorf("asking for a message: %w", err)
	}
	if answer.Error != nil && answer.Error.ErrorCode == codeNotFound {
		return m, false, nil
	} else if answer.Error != nil {
		return m, false, fmt.Errorf("asking for a message: %w", answer.Error)
	}
	return answer.Message, true, nil
}

// header returns a header of the message, or "" if the message does not have it.
func (m stored) header(name string) (string, error) {
	if len(m.Header) == 0 {
		return "", nil
	}
	all, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil && !errors.Is(err, nats.ErrBadHeaderMsg) {
		return "", err
	}
	return textproto.MIMEHeader(all).Get(name), err
}

// prefix returns the prefix of the subjects of requests to JetStream.
func prefix(js natsjs.JetStream) string {
	opts := js.Options()
	switch {
	case opts.Domain != "":
		return "$JS." + opts.Domain + ".API."
	case opts.APIPrefix != "":
		return strings.TrimSuffix(opts.APIPrefix, ".") + "."
	}
	return natsjs.DefaultAPIPrefix
}
