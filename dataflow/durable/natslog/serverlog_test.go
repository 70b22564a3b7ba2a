package natslog

import (
	"log/slog"
	"strings"
	"testing"
)

// TestServerLog checks that messages of the server are passed on with their level, and
// that a full disk is noticed, which the server reports only in its log.
func TestServerLog(t *testing.T) {
	var out strings.Builder
	s := &serverLog{logger: slog.New(slog.NewTextHandler(&out, nil))}
	s.Noticef("started")
	s.Warnf("slow %s", "disk")
	s.Errorf("Filestore [%s] Critical write error: %s", "ST_x", "bad descriptor")
	if s.full.Load() {
		t.Error("full without a reason")
	}
	s.Errorf("Filestore [%s] Critical write error: %s", "ST_x", "write 1.blk: no space left on device")
	if !s.full.Load() {
		t.Error("not full, although the server says so")
	}
	if text := out.String(); strings.Contains(text, "started") || !strings.Contains(text, `level=WARN msg="slow disk"`) || strings.Count(text, "level=ERROR") != 2 {
		t.Error(text)
	}
}
