// Package mcptasks contains the messages of the MCP extension io.modelcontextprotocol/tasks, for use with the Go
// SDK, which does not support the extension. The names are those of the extension's schema.
package mcptasks

import (
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Extension is the identifier of the extension, and Since the first revision of MCP that supports it.
const (
	Extension = "io.modelcontextprotocol/tasks"
	Since     = "2026-07-28"
)

// The methods of the extension.
const (
	MethodGet    = "tasks/get"
	MethodUpdate = "tasks/update"
	MethodCancel = "tasks/cancel"
)

// The states of a task.
const (
	Working       = "working"
	InputRequired = "input_required"
	Completed     = "completed"
	Failed        = "failed"
	Cancelled     = "cancelled"
)

// A Task contains the common members of all messages about a task.
type Task struct {
	TaskID         string    `json:"taskId"`
	Status         string    `json:"status"`
	StatusMessage  string    `json:"statusMessage,omitempty"`
	CreatedAt      time.Time `json:"createdAt"`
	LastUpdatedAt  time.Time `json:"lastUpdatedAt"`
	TTLMs          *int64    `json:"ttlMs"` // since CreatedAt; null means unlimited
	PollIntervalMs int64     `json:"pollIntervalMs,omitempty"`
}

// A CreateTaskResult is the answer to tools/call instead of a result.
type CreateTaskResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"` // "task"
	Task
}

// A GetTaskResult is the answer to tasks/get.
type GetTaskResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"` // "complete"
	Task
	Result        json.RawMessage     `json:"result,omitempty"`        // of a completed task, with its own resultType
	Error         *jsonrpc.Error      `json:"error,omitempty"`         // of a failed task
	InputRequests mcp.InputRequestMap `json:"inputRequests,omitempty"` // of a task that requires input
}

// An Ack is the answer to tasks/update and tasks/cancel.
type Ack struct {
	mcp.ResultBase
	ResultType string `json:"resultType"` // "complete"
}

// IDParams are the parameters of tasks/get and tasks/cancel.
type IDParams struct {
	mcp.ParamsBase
	TaskID string `json:"taskId"`
}

// UpdateParams are the parameters of tasks/update.
type UpdateParams struct {
	mcp.ParamsBase
	TaskID         string                     `json:"taskId"`
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
}

// Declared reports whether a client declares the extension.
func Declared(c *mcp.ClientCapabilities) bool {
	if c == nil {
		return false
	}
	_, ok := c.Extensions[Extension]
	return ok
}

// ErrMissing is the error for a client that does not declare the extension.
func ErrMissing() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code:    mcp.CodeMissingRequiredClientCapabilities,
		Message: "missing required client capability: the extension " + Extension,
		Data:    json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + Extension + `":{}}}}`),
	}
}

// ErrUnknown is the error for a task that does not exist, or belongs to another client: the two cannot be
// distinguished.
func ErrUnknown() *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "task not found"}
}
