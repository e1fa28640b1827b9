package wire

import (
	"encoding/json"
	"fmt"
	"time"
)

// SchemaVersion is the envelope's own version.
const SchemaVersion = schemaName + "1"

const schemaName = "agentbus-envelope/v"

// Sender identifies the sender of a message. ID is a worker's id, which must equal the id in the subject (see
// CheckSender).
type Sender struct {
	Role  Role   `json:"role"`
	ID    string `json:"id"`
	RunID string `json:"run_id,omitempty"`
	Key   []byte `json:"-"` // key of the attempt; Encode signs reports with it, unless it is nil
}

// Envelope is one decoded message.
type Envelope struct {
	SentAt    time.Time       // UTC; zero if Bare
	Sender    Sender          // zero if Bare; Key is always nil
	Seq       uint64          // increases within a connection of the sender; 0 if Bare
	Payload   Payload         // a pointer to the row's type
	Raw       json.RawMessage // the payload as received, including unknown fields
	Signature string          // as received, or empty; see SignedBy
	Bare      bool            // set if the message is a worker_error object without an envelope
}

// frame is the envelope's JSON.
type frame struct {
	SchemaVersion string          `json:"schema_version"`
	MessageType   string          `json:"message_type"`
	SentAt        Time            `json:"sent_at"`
	Sender        Sender          `json:"sender"`
	Seq           uint64          `json:"seq"`
	Payload       json.RawMessage `json:"payload"`
	Signature     string          `json:"signature,omitempty"`
}

// frameFields are the rules for the envelope's fields. Decode checks the version and the message type before these
// rules.
var frameFields = append([]Field{need("sent_at", moment), need("seq", atLeast(0)), need("payload"), need("sender")},
	senderFields...)

var senderFields = []Field{
	need("sender.role", oneOf(string(RoleDirector), string(RoleWorker), string(RoleOperator))),
	need("sender.id", filled),
}

// Encode wraps a payload in an envelope, and signs reports and checkpoints if the sender has a key. at is the current
// time. Encode returns a *Malformed if the payload breaks a rule of its row.
func Encode(from Sender, seq uint64, at time.Time, p Payload) ([]byte, error) {
	row, known := rowOf(p.MessageType())
	if !known {
		return nil, malformed(CauseUnknownType, "unknown message_type %s", brief(p.MessageType()))
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("wire: encode %s: %w", row.Type, err)
	}
	tree, m := readObject(body, "payload")
	if m == nil {
		m = check(row.Fields, tree, "payload")
	}
	if m == nil {
		m = check(senderFields, map[string]any{"sender": map[string]any{"role": string(from.Role), "id": from.ID}}, "")
	}
	if m != nil {
		return nil, m
	}
	data, err := json.Marshal(frame{SchemaVersion, row.Type, At(at), from, seq, body, from.sign(row.Type, tree, body)})
	if err != nil {
		return nil, fmt.Errorf("wire: encode %s: %w", row.Type, err)
	}
	return data, nil
}

// Decode reads one message: an envelope, a bare worker_error object, or either of them wrapped as {"error": {…}}. Its
// error is always a *Malformed. The envelope's Raw may share memory with data.
func Decode(data []byte) (Envelope, error) {
	if e, ok := decodePlain(data); ok {
		return e, nil
	}
	return decodeAny(data)
}

// decodeAny is the slow reader, for every form that Decode accepts.
func decodeAny(data []byte) (Envelope, error) {
	tree, m := readObject(data, "")
	if m == nil && isWrapped(tree) {
		data = member(data, "error")
		tree, m = readObject(data, "")
	}
	var e Envelope
	switch {
	case m != nil:
	case isFrame(tree):
		e, m = decodeFrame(tree, data)
	default:
		e, m = decodeBare(tree, data)
	}
	if m != nil {
		return Envelope{}, m
	}
	return e, nil
}

func isFrame(tree map[string]any) bool {
	_, version := tree["schema_version"]
	_, kind := tree["message_type"]
	return version || kind
}

// isWrapped reports whether a tree is {"error": {…}}, but not an envelope or a worker_error.
func isWrapped(tree map[string]any) bool {
	_, isObject := tree["error"].(map[string]any)
	_, isError := tree["error_id"]
	return isObject && !isError && !isFrame(tree)
}

// member returns the raw value of an object's member with this exact name. data must be an object that has the member.
func member(data []byte, name string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return nil
	}
	return members[name]
}

// decodeBare accepts a worker_error object without an envelope, as simple tools send it.
func decodeBare(tree map[string]any, data []byte) (Envelope, *Malformed) {
	_, hasID := tree["error_id"]
	_, hasType := tree["error_type"]
	if !hasID && !hasType {
		return Envelope{}, malformed(CauseNotAnEnvelope, "schema_version is missing, and the object is not a bare "+
			"worker_error (no error_id, no error_type)")
	}
	row, _ := rowOf(WorkerError{}.MessageType())
	p := row.New()
	return Envelope{Payload: p, Raw: data, Bare: true}, decodeInto(row.Fields, tree, data, "", p)
}

func decodeFrame(tree map[string]any, data []byte) (Envelope, *Malformed) {
	row, m := rowFor(tree)
	if m != nil {
		return Envelope{}, m
	}
	var f frame
	if m := decodeInto(frameFields, tree, data, "", &f); m != nil {
		return Envelope{}, m
	}
	body := member(data, "payload")
	payload, m := readObject(body, "payload")
	if m == nil && isWrapped(payload) && row.Type == (WorkerError{}).MessageType() {
		body = member(body, "error")
		payload, m = readObject(body, "payload.error")
	}
	if m != nil {
		return Envelope{}, m
	}
	p := row.New()
	e := Envelope{SentAt: f.SentAt.UTC(), Sender: f.Sender, Seq: f.Seq, Payload: p, Raw: body, Signature: f.Signature}
	return e, decodeInto(row.Fields, payload, body, "payload", p)
}
