-- Posts FILE over and over. Where "NAME" stands in it, each request has a name of its own: RUN-1, RUN-2, and so on.
-- Prints one line of JSON at the end. wrk -s load.lua URL -- FILE RUN [HEADER=VALUE ...]
function init(args)
  local file = assert(io.open(args[1], "rb"))
  local text = file:read("*a")
  file:close()
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  for place = 3, #args do
    local header, value = args[place]:match("^([^=]+)=(.*)$")
    wrk.headers[header] = value
  end
  local from, to = text:find('"NAME"', 1, true)
  if from == nil then
    wrk.body = text
    return
  end
  local before, after = text:sub(1, from) .. args[2] .. "-", text:sub(to)
  local number = 0
  request = function()
    number = number + 1
    return wrk.format(nil, nil, nil, before .. number .. after)
  end
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"answers":%d,"bytes":%d,"seconds":%.6f,"p50":%.3f,"p99":%.3f,' ..
    '"failed":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}}\n',
    summary.requests, summary.bytes, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, e.connect, e.read, e.write, e.status, e.timeout))
end
