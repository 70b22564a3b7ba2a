package capability

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/ids"
)

// ErrBadID is wrapped by the errors of [CheckID].
var ErrBadID = errors.New("host: bad identifier")

// CheckID returns an error for an invalid identifier. Identifiers become parts of URLs, logs and other programs' databases.
func CheckID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("host: %s is empty: %w", what, ErrBadID)
	case len(id) > agentproto.MaxID:
		return fmt.Errorf("host: %s has %d bytes, at most %d: %w", what, len(id), agentproto.MaxID, ErrBadID)
	}
	if reason := ids.Reason(id); reason != "" {
		return fmt.Errorf("host: %s %s: %w", what, reason, ErrBadID)
	}
	return nil
}
